#include "gemm_tables.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "../calibration_write.h"
#include "../points.h"

namespace stepcast::tools {
namespace {

// FLOPs from which on the host's gaps between kernels are shorter than the kernels.
constexpr double kSpreadFlops = 1e10;
constexpr double kSpreadSeconds = 100e-6;
constexpr double kMedianOfNormal = 0.6745;  // of |x|, in standard deviations
constexpr int kMinCommon = 100;

// The project's goal for the median error of GEMMs of at least 1 GFLOP.
constexpr double kMark = 0.07;

struct Marks {
  int curves = 0, met = 0;
};

std::string figure(const cost::SizeClass& c) {
  return c.points == 0 ? fmt::format("{:>12}", "-")
                       : fmt::format("{:5.1f} {:6.1f}", 100 * c.median, 100 * c.p95);
}

void print_row(const std::string& device, const std::string& library, const std::string& dtype,
               std::size_t points, const cost::GemmFit& fit) {
  const auto& h = fit.held_out;
  fmt::print("{:13} {:7} {:9} {:6} {:5} | {} {:3} | {} | {} | {} | {} | {}\n", device, library,
             dtype, points, h[0].points + h[4].points, figure(h[4]),
             h[4].median <= kMark ? "" : "!", figure(h[0]), figure(h[1]), figure(h[2]),
             figure(h[3]), figure(fit.held_out_weights[4]));
}

// The spread between libraries on a device's generation in a format, and its source; 0: not
// measured.
std::pair<double, std::string> spread_of(const std::vector<Spread>& spreads,
                                         const std::string& device, const std::string& dtype) {
  for (const Spread& s : spreads) {
    const auto it = s.dtypes.find(dtype);
    if (it != s.dtypes.end() &&
        std::find(s.devices.begin(), s.devices.end(), device) != s.devices.end()) {
      return {it->second.median / kMedianOfNormal,
              fmt::format("libraries on {}: {:.1f} % apart in the median of {} shapes "
                          "from 10 GFLOP and 100 us",
                          s.devices.front(), 100 * it->second.median, it->second.points)};
    }
  }
  return {0, ""};
}

void fit_gemm_source(const fs::path& directory, const text::Value& source,
                     const std::vector<Spread>& spreads, bool check, Marks& marks) {
  const fs::path points_file = directory / text::to_string(need(source, "points"));
  auto all = cost::read_gemm_points(points_file);
  // Of another machine: the curve lies between both, and its residual has their spread.
  if (const text::Value* more = source.find("more_points")) {
    for (auto& [dtype, points] : cost::read_gemm_points(directory / text::to_string(*more))) {
      auto& of = all[dtype];
      of.insert(of.end(), points.begin(), points.end());
    }
  }
  std::string out = cost::head_text({"gemm", strings(need(source, "devices")),
                                     text::to_string(need(source, "library")),
                                     text::to_string(need(source, "source"))});
  const text::Value& dtypes = need(source, "dtypes");
  for (const auto& entry : dtypes.entries) {
    const auto dtype = parse<DType>(entry.key);
    const text::Value& d = entry.value;
    const std::string measured = text_or(d, "measured_as", entry.key);
    if (!dtype || !all.contains(measured)) {
      throw InputError(Fault{entry.origin, fmt::format("no points of dtype '{}'", measured)});
    }
    cost::GemmLaw start;
    start.sms = static_cast<int>(text::to_integer(need(source, "sms")));
    start.bandwidth = text::to_number(need(source, "bandwidth"));
    start.rate = text::to_number(need(d, "rate"));
    start.fixed = 3e-6;
    start.tail = 0.8;
    start.resident = number_or(source, "resident", 0);
    const cost::GemmFit fit = cost::fit_gemm(all.at(measured), start, element_bytes(*dtype));
    cost::GemmCurve curve;
    curve.law = fit.law;
    // Tables timed from the host include launch gaps, which jobs count on their host stream.
    curve.law.fixed = std::min(curve.law.fixed, number_or(d, "fixed", curve.law.fixed));
    curve.residual = std::max(fit.held_out[4].deviation, number_or(d, "residual", 0));
    curve.input_grad_residual = number_or(d, "input_grad_residual", 0);
    curve.weight_grad_residual = number_or(d, "weight_grad_residual", 0);
    if (const text::Value* unaligned = d.find("unaligned")) {
      for (const auto& factor : unaligned->entries) {
        curve.unaligned[std::stoi(factor.key)] = text::to_number(factor.value);
      }
    }
    curve.casts = number_or(d, "casts", 0);
    curve.burst = text::to_number(need(d, "burst"));
    curve.long_run = text::to_number(need(d, "long_run"));
    curve.long_run_deviation = text::to_number(need(d, "long_run_deviation"));
    curve.training = number_or(d, "training", 0);
    curve.input_grad = number_or(d, "input_grad", 1);
    curve.weight_grad = number_or(d, "weight_grad", 1);
    curve.accumulate = number_or(d, "accumulate", 0);
    curve.grouped = number_or(d, "grouped", 1);
    if (const text::Value* rows = d.find("grouped_rows")) {
      for (const auto& factor : rows->entries) {
        curve.grouped_rows[std::stoi(factor.key)] = text::to_number(factor.value);
      }
    }
    curve.grouped_deviation = number_or(d, "grouped_deviation", 0);
    const auto [other, other_source] =
        spread_of(spreads, strings(need(source, "devices")).front(), entry.key);
    curve.other_library = other;
    out += cost::gemm_text(
        entry.key, curve, fit.held_out,
        {text_or(d, "layout_source", "not measured here"), text_or(d, "long_run_source", ""),
         text_or(d, "grouped_source", ""), other_source, text_or(d, "casts_source", ""),
         text_or(d, "training_source", "")});
    print_row(strings(need(source, "devices")).front(), text::to_string(need(source, "library")),
              entry.key, all.at(measured).size(), fit);
    ++marks.curves;
    marks.met += fit.held_out[4].median <= kMark ? 1 : 0;
    std::fflush(stdout);
  }
  write(directory / text::to_string(need(source, "file")), out, check);
}

}  // namespace

std::vector<Spread> measure_spreads(const fs::path& directory, const text::Value& sources) {
  using Shape = std::array<std::int64_t, 4>;
  std::vector<Spread> out;
  fmt::print(
      "libraries apart on common shapes from 10 GFLOP and 100 us: |ratio| in % (median, 95th)\n");
  for (const auto& item : need(sources, "libraries").items) {
    Spread spread;
    spread.devices = strings(need(item, "devices"));
    std::map<std::string, std::vector<std::map<Shape, double>>> tables;
    for (const std::string& name : strings(need(item, "points"))) {
      for (const auto& [dtype, points] : cost::read_gemm_points(directory / name)) {
        auto& table = tables[dtype].emplace_back();
        for (const auto& p : points) {
          table[{p.m, p.n, p.k, p.batch}] = p.seconds;
        }
      }
    }
    for (const auto& [dtype, of] : tables) {
      std::vector<double> ratios;
      for (std::size_t i = 0; i < of.size(); ++i) {
        for (std::size_t j = i + 1; j < of.size(); ++j) {
          for (const auto& [shape, seconds] : of[i]) {
            const auto other = of[j].find(shape);
            const double flops = 2.0 * static_cast<double>(shape[0] * shape[1]) *
                                 static_cast<double>(shape[2] * shape[3]);
            if (other != of[j].end() && flops >= kSpreadFlops &&
                std::min(seconds, other->second) >= kSpreadSeconds) {
              ratios.push_back(std::log(other->second / seconds));
            }
          }
        }
      }
      if (ratios.size() < kMinCommon) {
        continue;
      }
      const cost::SizeClass c = cost::summary(std::move(ratios));
      spread.dtypes[dtype] = c;
      fmt::print("{:34} {:9} {:6} | {:5.1f} {:5.1f}\n", spread.devices.front(), dtype, c.points,
                 100 * c.median, 100 * c.p95);
    }
    out.push_back(std::move(spread));
  }
  return out;
}

void fit_gemm_sources(const fs::path& directory, const text::Value& sources, bool check) {
  const auto spreads = measure_spreads(directory, sources);
  fmt::print(
      "\nGEMM, a random quarter of the shapes held out: |error| in % (median, 95th percentile) by "
      "size; last: a quarter of the\nweights' shapes (n, k) held out at every m, from 1 GFLOP. !: "
      "above the mark of {:.0f} %\n{:13} {:7} {:9} {:>6} {:>5} | {:16} | {:12} | {:12} | {:12} | "
      "{:12} | {}\n",
      100 * kMark, "device", "library", "dtype", "points", "held", "from 1 GFLOP", "below 1",
      "1 to 10", "10 to 100", "from 100", "new weights");
  Marks marks;
  for (const auto& source : need(sources, "gemm").items) {
    fit_gemm_source(directory, source, spreads, check, marks);
  }
  fmt::print("{} of {} tables within {:.0f} % in the median from 1 GFLOP\n", marks.met,
             marks.curves, 100 * kMark);
}

void fit_grouped_source(const fs::path& directory, const text::Value& source, bool check) {
  const auto all = cost::read_expert_points(directory / text::to_string(need(source, "points")));
  const std::string& file = text::to_string(need(source, "file"));
  std::string out = cost::head_text({"grouped", strings(need(source, "devices")),
                                     text::to_string(need(source, "library")),
                                     text::to_string(need(source, "source"))});
  for (const auto& entry : need(source, "dtypes").entries) {
    const auto dtype = parse<DType>(entry.key);
    if (!dtype || !all.contains(entry.key)) {
      throw InputError(Fault{entry.origin, fmt::format("no points of dtype '{}'", entry.key)});
    }
    const auto over =
        cost::read_calibration(directory / text::to_string(need(entry.value, "over")));
    cost::GroupedFit fit =
        cost::fit_grouped(all.at(entry.key), over->gemm.at(*dtype).law, element_bytes(*dtype));
    fit.curve.over = over->library;
    out += cost::grouped_text(entry.key, fit.curve, fit.held_out);
    const std::string factors = fmt::format("{:.2f}", fmt::join(fit.curve.factor, " "));
    fmt::print("{:34} {:9} {:6} {:6} | {:5.1f} {:5.1f} | fixed {:.0f} us, gather {:.2f}, {}\n",
               file, entry.key, all.at(entry.key).size(), fit.held_out.points,
               100 * fit.held_out.median, 100 * fit.held_out.p95, fit.curve.fixed * 1e6,
               fit.curve.gather, factors);
  }
  write(directory / file, out, check);
}

}  // namespace stepcast::tools
