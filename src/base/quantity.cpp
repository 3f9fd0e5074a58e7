// Exact division of quantities into time. A law test compares to the picosecond, and folded must
// equal full, so neither may depend on how a floating-point quotient happens to round.
#include "stepcast/base/quantity.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "stepcast/base/diagnostics.h"

namespace stepcast {
namespace {

// __extension__: 128-bit integers are not ISO C++, and warnings are errors here.
__extension__ using Wide = unsigned __int128;

constexpr std::uint64_t kPicosecondsPerSecond = 1'000'000'000'000;

// value = mantissa * 2^exponent, the mantissa odd (or 0).
struct Binary {
  std::uint64_t mantissa = 0;
  int exponent = 0;
};

Binary odd(std::uint64_t mantissa, int exponent) {
  while (mantissa != 0 && mantissa % 2 == 0) {
    mantissa /= 2;
    ++exponent;
  }
  return {mantissa, exponent};
}

Binary exactly(double v) {
  constexpr int kDigits = std::numeric_limits<double>::digits;
  int exponent = 0;
  const double fraction = std::frexp(v, &exponent);
  return odd(static_cast<std::uint64_t>(std::ldexp(fraction, kDigits)), exponent - kDigits);
}

int bits(Wide v) {
  int n = 0;
  for (; v != 0; v >>= 1) {
    ++n;
  }
  return n;
}

// The least whole number of picoseconds in which `work` is done at `rate` per second, computed
// exactly. Mantissas have at most 63 and 53 bits and 10^12 has 40, so where the numerator or the
// denominator exceeds 127 bits, that alone decides the quotient.
Time ceiling(Binary work, Binary rate) {
  STEPCAST_CHECK(rate.mantissa != 0, "a duration needs a rate");
  if (work.mantissa == 0) {
    return Time(0);
  }
  Wide numerator = static_cast<Wide>(work.mantissa) * kPicosecondsPerSecond;
  Wide denominator = rate.mantissa;
  const int shift = work.exponent - rate.exponent;
  const auto overflow = [] {
    throw std::overflow_error("a duration beyond 106 days does not fit 64-bit picoseconds");
  };
  if (shift >= 0) {
    if (bits(numerator) + shift > 127) {
      overflow();
    }
    numerator <<= shift;
  } else {
    if (bits(denominator) - shift > 127) {
      return Time(1);
    }
    denominator <<= -shift;
  }
  const Wide quotient = numerator / denominator + (numerator % denominator != 0 ? 1 : 0);
  if (quotient > static_cast<Wide>(std::numeric_limits<std::int64_t>::max())) {
    overflow();
  }
  return Time(static_cast<std::int64_t>(quotient));
}

Time duration(Binary work, double rate, const char* unit) {
  if (!(rate > 0)) {
    throw std::domain_error(fmt::format("a rate of {} {} is not positive", rate, unit));
  }
  // Closed forms state free communication as an infinite rate.
  return std::isinf(rate) ? Time(0) : ceiling(work, exactly(rate));
}

double positive_seconds(Time t) {
  if (t.count() <= 0) {
    throw std::domain_error("a rate over no time at all is undefined");
  }
  return to_seconds(t);
}

}  // namespace

Time seconds(double s) {
  // long double: 1.1 s must not become 1099999999999 ps.
  const long double picoseconds =
      static_cast<long double>(s) * static_cast<long double>(kPicosecondsPerSecond);
  if (!(std::abs(picoseconds) < 0x1p63L)) {
    throw std::overflow_error(
        fmt::format("{} s does not fit 64-bit picoseconds (at most 106 days)", s));
  }
  return Time(std::llround(picoseconds));
}

Time operator/(Bytes b, Bandwidth r) {
  if (b.count() < 0) {
    throw std::domain_error("negative bytes take no time");
  }
  return duration(odd(static_cast<std::uint64_t>(b.count()), 0), r.count(), "bytes per second");
}

Time operator/(Flops f, FlopRate r) {
  if (!(f.count() >= 0) || std::isinf(f.count())) {
    throw std::domain_error("FLOPs must be finite and not negative");
  }
  return duration(exactly(f.count()), r.count(), "FLOPs per second");
}

Bandwidth operator/(Bytes b, Time t) {
  return Bandwidth(static_cast<double>(b.count()) / positive_seconds(t));
}

FlopRate operator/(Flops f, Time t) { return FlopRate(f.count() / positive_seconds(t)); }

}  // namespace stepcast
