// Quantities to and from text. One table of units per dimension serves both what is accepted and
// what a message lists.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/base/number.h"
#include "stepcast/base/quantity.h"
#include "stepcast/base/suggestion.h"

namespace stepcast {
namespace {

struct Unit {
  std::string_view name;
  double factor;  // in SI base units; for time in picoseconds, so that whole numbers stay exact
};

// "400 Gb/s" is not "400 GB/s": a small b is a bit everywhere, so units are compared with their
// case.
constexpr double kKi = 1024;
constexpr std::array kTime = {Unit{"ps", 1},      Unit{"ns", 1e3},    Unit{"us", 1e6},
                              Unit{"µs", 1e6},    Unit{"ms", 1e9},    Unit{"s", 1e12},
                              Unit{"min", 60e12}, Unit{"h", 3600e12}, Unit{"d", 86400e12}};
constexpr std::array kBytes = {Unit{"B", 1},
                               Unit{"kB", 1e3},
                               Unit{"KB", 1e3},
                               Unit{"MB", 1e6},
                               Unit{"GB", 1e9},
                               Unit{"TB", 1e12},
                               Unit{"PB", 1e15},
                               Unit{"KiB", kKi},
                               Unit{"MiB", kKi* kKi},
                               Unit{"GiB", kKi* kKi* kKi},
                               Unit{"TiB", kKi* kKi* kKi* kKi}};
constexpr std::array kBandwidth = {Unit{"B/s", 1},
                                   Unit{"kB/s", 1e3},
                                   Unit{"KB/s", 1e3},
                                   Unit{"MB/s", 1e6},
                                   Unit{"GB/s", 1e9},
                                   Unit{"TB/s", 1e12},
                                   Unit{"PB/s", 1e15},
                                   Unit{"KiB/s", kKi},
                                   Unit{"MiB/s", kKi* kKi},
                                   Unit{"GiB/s", kKi* kKi* kKi},
                                   Unit{"TiB/s", kKi* kKi* kKi* kKi},
                                   Unit{"MBps", 1e6},
                                   Unit{"GBps", 1e9},
                                   Unit{"TBps", 1e12},
                                   Unit{"b/s", 1.0 / 8},
                                   Unit{"kb/s", 1e3 / 8},
                                   Unit{"Mb/s", 1e6 / 8},
                                   Unit{"Gb/s", 1e9 / 8},
                                   Unit{"Tb/s", 1e12 / 8},
                                   Unit{"Mbit/s", 1e6 / 8},
                                   Unit{"Gbit/s", 1e9 / 8},
                                   Unit{"Tbit/s", 1e12 / 8},
                                   Unit{"bps", 1.0 / 8},
                                   Unit{"kbps", 1e3 / 8},
                                   Unit{"Mbps", 1e6 / 8},
                                   Unit{"Gbps", 1e9 / 8},
                                   Unit{"Tbps", 1e12 / 8}};
constexpr std::array kFlopRate = {
    Unit{"FLOP/s", 1},     Unit{"MFLOP/s", 1e6},  Unit{"GFLOP/s", 1e9}, Unit{"TFLOP/s", 1e12},
    Unit{"PFLOP/s", 1e15}, Unit{"EFLOP/s", 1e18}, Unit{"FLOPS", 1},     Unit{"MFLOPS", 1e6},
    Unit{"GFLOPS", 1e9},   Unit{"TFLOPS", 1e12},  Unit{"PFLOPS", 1e15}, Unit{"EFLOPS", 1e18}};
constexpr std::array kPower = {Unit{"W", 1}, Unit{"mW", 1e-3}, Unit{"kW", 1e3}, Unit{"MW", 1e6}};

struct Dimension {
  std::string_view expected;
  std::span<const Unit> units;
  double bare;  // factor of a number without a unit
};
constexpr Dimension kTimes = {"a time such as '1.5 us' (ps, ns, us, ms, s, min, h, d)", kTime,
                              1e12};
constexpr Dimension kSizes = {"a size such as '80 GB' (B, kB, MB, GB, TB, PB, KiB, MiB, GiB, TiB)",
                              kBytes, 1};
constexpr Dimension kBandwidths = {
    "a bandwidth such as '400 Gb/s' or '50 GB/s' (b is a bit, B a byte; k, M, G, T, Ki, Mi, Gi, "
    "Ti)",
    kBandwidth, 1};
constexpr Dimension kFlopRates = {
    "a rate such as '312 TFLOP/s' (FLOP/s, MFLOP/s, GFLOP/s, TFLOP/s, PFLOP/s, EFLOP/s)", kFlopRate,
    1};
constexpr Dimension kPowers = {"a power such as '700 W' (mW, W, kW, MW)", kPower, 1};

std::string_view trimmed(std::string_view s) {
  constexpr const char* kBlank = " \t";
  const auto first = s.find_first_not_of(kBlank);
  return first == std::string_view::npos ? std::string_view{}
                                         : s.substr(first, s.find_last_not_of(kBlank) - first + 1);
}

double unit_factor(std::string_view text, std::string_view unit, const Dimension& dimension) {
  if (unit.empty()) {
    return dimension.bare;
  }
  std::vector<std::string> names;
  for (const Unit& known : dimension.units) {
    if (known.name == unit) {
      return known.factor;
    }
    names.emplace_back(known.name);
  }
  throw std::invalid_argument(fmt::format("'{}' has the unknown unit '{}'; expected {}{}", text,
                                          unit, dimension.expected, suggestion(unit, names)));
}

// The value in the dimension's smallest unit; long double keeps 64-bit counts of bytes and
// picoseconds exact.
long double parse(const std::string& text, const Dimension& dimension) {
  const std::string_view all = trimmed(text);
  const std::size_t length = number_length(all);
  const std::string_view unit = trimmed(all.substr(length));
  if (length == 0) {
    throw std::invalid_argument(
        fmt::format("'{}' has no number; expected {}", text, dimension.expected));
  }
  long double number = 0;
  double floating = 0;
  try {
    floating = parse_number(all.substr(0, length));
    number = floating;
  } catch (const std::invalid_argument& e) {
    throw std::invalid_argument(fmt::format("{}: {}", e.what(), dimension.expected));
  }
  // A whole number may have more digits than a double holds: 9007199254740993 bytes.
  if (floating == std::floor(floating) && std::abs(floating) < 0x1p63) {
    try {
      number = static_cast<long double>(parse_integer(all.substr(0, length)));
    } catch (const std::invalid_argument&) {  // a fraction that a double cannot hold: `floating` is
                                              // the nearest value
    }
  }
  const double factor = unit_factor(text, unit, dimension);
  if (std::signbit(floating) && floating != 0) {
    throw std::invalid_argument(
        fmt::format("'{}' is negative; expected {}", text, dimension.expected));
  }
  return number * static_cast<long double>(factor);
}

std::int64_t whole(const std::string& text, long double value, const Dimension& dimension) {
  if (!(value < 0x1p63L)) {
    throw std::invalid_argument(fmt::format("'{}' is beyond range; expected {} below 2^63 {}", text,
                                            dimension.expected, dimension.units.front().name));
  }
  return std::llround(value);
}

double finite(const std::string& text, long double value, const Dimension& dimension) {
  const double narrowed = static_cast<double>(value);
  if (!std::isfinite(narrowed)) {
    throw std::invalid_argument(
        fmt::format("'{}' is beyond range; expected {}", text, dimension.expected));
  }
  return narrowed;
}

// Four significant digits in the largest unit of `ladder` (ascending) that does not exceed the
// value.
std::string fitting(double value, std::span<const Unit> ladder) {
  if (!std::isfinite(value)) {
    return fmt::format("{} {}", value, ladder.front().name);
  }
  std::size_t i = 0;
  // 999.96 kB prints as 1 MB, not as 1000 kB.
  while (i + 1 < ladder.size() && std::abs(value) >= ladder[i + 1].factor * 0.99995) {
    ++i;
  }
  const double scaled = value / ladder[i].factor;
  const double magnitude = std::abs(scaled);
  int decimals = 3;
  for (double step = 9.9995; decimals > 0 && magnitude >= step; step *= 10) {
    --decimals;
  }
  std::string digits = fmt::format("{:.{}f}", scaled, decimals);
  if (decimals > 0) {
    digits.erase(digits.find_last_not_of('0') + 1);
    if (digits.back() == '.') {
      digits.pop_back();
    }
  }
  return fmt::format("{} {}", digits, ladder[i].name);
}

}  // namespace

Time parse_time(const std::string& text) { return Time(whole(text, parse(text, kTimes), kTimes)); }
Bytes parse_bytes(const std::string& text) {
  return Bytes(whole(text, parse(text, kSizes), kSizes));
}
Bandwidth parse_bandwidth(const std::string& text) {
  return Bandwidth(finite(text, parse(text, kBandwidths), kBandwidths));
}
FlopRate parse_flop_rate(const std::string& text) {
  return FlopRate(finite(text, parse(text, kFlopRates), kFlopRates));
}
Power parse_power(const std::string& text) {
  return Power(finite(text, parse(text, kPowers), kPowers));
}

std::string to_string(Time t) {
  constexpr std::array kLadder = {Unit{"ps", 1}, Unit{"ns", 1e3}, Unit{"us", 1e6}, Unit{"ms", 1e9},
                                  Unit{"s", 1e12}};
  return fitting(static_cast<double>(t.count()), kLadder);
}

std::string to_string(Bytes b) {
  constexpr std::array kLadder = {Unit{"B", 1}, Unit{"KiB", kKi}, Unit{"MiB", kKi * kKi},
                                  Unit{"GiB", kKi * kKi * kKi}, Unit{"TiB", kKi * kKi * kKi * kKi}};
  return fitting(static_cast<double>(b.count()), kLadder);
}

std::string to_string(Bandwidth r) {
  constexpr std::array kLadder = {Unit{"B/s", 1}, Unit{"kB/s", 1e3}, Unit{"MB/s", 1e6},
                                  Unit{"GB/s", 1e9}, Unit{"TB/s", 1e12}};
  return fitting(r.count(), kLadder);
}

std::string to_string(FlopRate r) {
  constexpr std::array kLadder = {Unit{"FLOP/s", 1},     Unit{"MFLOP/s", 1e6},
                                  Unit{"GFLOP/s", 1e9},  Unit{"TFLOP/s", 1e12},
                                  Unit{"PFLOP/s", 1e15}, Unit{"EFLOP/s", 1e18}};
  return fitting(r.count(), kLadder);
}

std::string to_string(Power p) {
  constexpr std::array kLadder = {Unit{"mW", 1e-3}, Unit{"W", 1}, Unit{"kW", 1e3}, Unit{"MW", 1e6}};
  return fitting(p.count(), kLadder);
}

}  // namespace stepcast
