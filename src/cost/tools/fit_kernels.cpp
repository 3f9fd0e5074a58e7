// Refits every kernel curve from its measured points and prints the held-out errors:
//   fit_kernels CALIBRATION_DIRECTORY [--check]
// Reads sources.yaml there; writes the files it names. --check prints the table and writes nothing.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>

#include "../calibration_write.h"
#include "../datasheet.h"
#include "../points.h"
#include "stepcast/text/document.h"

namespace {

using namespace stepcast;
namespace fs = std::filesystem;

// Start to end of the smallest kernels on the device itself (Vidur's traces of A100 and H100: 2
// us).
constexpr double kDeviceFixed = 2e-6;

const text::Value& need(const text::Value& map, std::string_view key) {
  const text::Value* v = map.find(key);
  if (v == nullptr) {
    throw InputError(Fault{map.origin, fmt::format("key '{}' is missing", key)});
  }
  return *v;
}

std::string text_or(const text::Value& map, std::string_view key, const std::string& otherwise) {
  const text::Value* v = map.find(key);
  return v == nullptr ? otherwise : text::to_string(*v);
}

double number_or(const text::Value& map, std::string_view key, double otherwise) {
  const text::Value* v = map.find(key);
  return v == nullptr ? otherwise : text::to_number(*v);
}

std::vector<std::string> strings(const text::Value& list) {
  std::vector<std::string> out;
  out.reserve(list.items.size());
  for (const auto& item : list.items) {
    out.push_back(text::to_string(item));
  }
  return out;
}

cost::ElementBytes element_bytes(job::DType t) {
  const double in = t == job::DType::nvfp4 ? 0.5625 : job::bytes_per_element(t);
  return {in, std::max(2.0, job::bytes_per_element(t))};
}

void write(const fs::path& file, const std::string& content, bool check) {
  if (check) {
    return;
  }
  std::ofstream out(file, std::ios::binary);
  out << content;
  if (!out) {
    throw std::runtime_error("cannot write " + file.string());
  }
}

// How far libraries lie apart in a format on the devices of one generation.
struct Spread {
  std::vector<std::string> devices;
  std::map<std::string, cost::SizeClass> dtypes;
  std::map<std::string, double> deviation;
};

// Where gaps on the host between kernels weigh less than the kernels.
constexpr double kSpreadFlops = 1e10;
constexpr double kSpreadSeconds = 100e-6;
constexpr double kMedianOfNormal = 0.6745;  // of |x|, in standard deviations
constexpr int kLeastCommon = 100;

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
      if (ratios.size() < kLeastCommon) {
        continue;
      }
      const cost::SizeClass c = cost::summary(std::move(ratios));
      spread.dtypes[dtype] = c;
      spread.deviation[dtype] = c.median / kMedianOfNormal;
      fmt::print("{:34} {:9} {:6} | {:5.1f} {:5.1f}\n", spread.devices.front(), dtype, c.points,
                 100 * c.median, 100 * c.p95);
    }
    out.push_back(std::move(spread));
  }
  return out;
}

// The spread of a device's generation in a format; without one the widest measured.
std::pair<double, std::string> spread_of(const std::vector<Spread>& spreads,
                                         const std::string& device, const std::string& dtype) {
  for (const Spread& s : spreads) {
    const auto it = s.deviation.find(dtype);
    if (it != s.deviation.end() &&
        std::find(s.devices.begin(), s.devices.end(), device) != s.devices.end()) {
      return {it->second, fmt::format("libraries on {}: {:.1f} % apart in the median of {} shapes "
                                      "from 10 GFLOP and 100 us",
                                      s.devices.front(), 100 * s.dtypes.at(dtype).median,
                                      s.dtypes.at(dtype).points)};
    }
  }
  return {0, ""};
}

void fit_gemm_source(const fs::path& directory, const text::Value& source,
                     const std::vector<Spread>& spreads, bool check) {
  const fs::path points_file = directory / text::to_string(need(source, "points"));
  const auto all = cost::read_gemm_points(points_file);
  std::string out = cost::head_text({"gemm", strings(need(source, "devices")),
                                     text::to_string(need(source, "library")),
                                     text::to_string(need(source, "source"))});
  const text::Value& dtypes = need(source, "dtypes");
  for (const auto& entry : dtypes.entries) {
    const auto dtype = cost::parse_dtype(entry.key);
    if (!dtype || !all.contains(entry.key)) {
      throw InputError(Fault{entry.origin, fmt::format("no points of dtype '{}'", entry.key)});
    }
    const text::Value& d = entry.value;
    cost::GemmLaw start;
    start.sms = static_cast<int>(text::to_integer(need(source, "sms")));
    start.bandwidth = text::to_number(need(source, "bandwidth"));
    start.rate = text::to_number(need(d, "rate"));
    start.fixed = 3e-6;
    start.tail = 0.8;
    start.resident = number_or(source, "resident", 0);
    const cost::GemmFit fit = cost::fit_gemm(all.at(entry.key), start, element_bytes(*dtype));
    cost::GemmCurve curve;
    curve.law = fit.law;
    // Tables timed from the host hold launch gaps, which a job pays on its host stream.
    curve.law.fixed = std::min(curve.law.fixed, number_or(d, "fixed", curve.law.fixed));
    curve.residual = fit.held_out[4].deviation;
    curve.burst = text::to_number(need(d, "burst"));
    curve.long_run = text::to_number(need(d, "long_run"));
    curve.long_run_deviation = text::to_number(need(d, "long_run_deviation"));
    curve.input_grad = number_or(d, "input_grad", 1);
    curve.weight_grad = number_or(d, "weight_grad", 1);
    curve.grouped = number_or(d, "grouped", 1);
    curve.grouped_deviation = number_or(d, "grouped_deviation", 0);
    const auto [other, other_source] =
        spread_of(spreads, strings(need(source, "devices")).front(), entry.key);
    curve.other_library = other;
    out += cost::gemm_text(
        entry.key, curve, fit.held_out,
        {text_or(d, "layout_source", "not measured here"), text_or(d, "long_run_source", ""),
         text_or(d, "grouped_source", ""), other_source});
    const auto& h = fit.held_out;
    fmt::print(
        "{:34} {:9} {:6} {:6} | {:5.1f} {:5.1f} | {:5.1f} {:5.1f} | {:5.1f} {:5.1f} | {:5.1f} "
        "{:5.1f} | {:5.1f} "
        "{:5.1f} | {:5.1f} {:5.1f}\n",
        text::to_string(need(source, "file")), entry.key, all.at(entry.key).size(), h[4].points,
        100 * h[0].median, 100 * h[0].p95, 100 * h[1].median, 100 * h[1].p95, 100 * h[2].median,
        100 * h[2].p95, 100 * h[3].median, 100 * h[3].p95, 100 * h[4].median, 100 * h[4].p95,
        100 * fit.held_out_weights[4].median, 100 * fit.held_out_weights[4].p95);
    std::fflush(stdout);
  }
  write(directory / text::to_string(need(source, "file")), out, check);
}

void fit_grouped_source(const fs::path& directory, const text::Value& source, bool check) {
  const auto all = cost::read_expert_points(directory / text::to_string(need(source, "points")));
  const std::string& file = text::to_string(need(source, "file"));
  std::string out = cost::head_text({"grouped", strings(need(source, "devices")),
                                     text::to_string(need(source, "library")),
                                     text::to_string(need(source, "source"))});
  for (const auto& entry : need(source, "dtypes").entries) {
    const auto dtype = cost::parse_dtype(entry.key);
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

// A pass from published rates: the keys of the law, one rate a head dimension.
cost::AttentionPass published_pass(const text::Value& v) {
  cost::AttentionPass pass;
  pass.fixed = text::to_number(need(v, "fixed"));
  pass.prologue = text::to_number(need(v, "prologue"));
  pass.tail = text::to_number(need(v, "tail"));
  pass.residual = text::to_number(need(v, "residual"));
  for (const auto& rate : need(v, "rate").entries) {
    pass.rate[std::stoi(rate.key)] = text::to_number(rate.value);
  }
  return pass;
}

void fit_attention_source(const fs::path& directory, const text::Value& source, bool check) {
  const std::string& file = text::to_string(need(source, "file"));
  std::string out = cost::head_text({"attention", strings(need(source, "devices")), "any",
                                     text::to_string(need(source, "source"))});
  for (const auto& entry : need(source, "kernels").entries) {
    const text::Value& k = entry.value;
    if (!cost::parse_attention_kernel(entry.key)) {
      throw InputError(Fault{entry.origin, fmt::format("'{}' is no attention kernel", entry.key)});
    }
    cost::AttentionCurve curve;
    cost::SizeClass held_out;
    if (const text::Value* points = k.find("points")) {
      const auto shortest = text::to_integer(need(k, "shortest"));
      const auto all = cost::read_attention_points(directory / text::to_string(*points), shortest);
      const auto it = all.find(entry.key);
      if (it == all.end()) {
        throw InputError(Fault{entry.origin, "no points of this kernel"});
      }
      const cost::AttentionFit fit =
          cost::fit_attention(it->second, text::to_number(need(k, "rate")),
                              {static_cast<int>(text::to_integer(need(source, "sms"))),
                               text::to_number(need(source, "bandwidth"))},
                              text_or(k, "paged", "false") == "true");
      curve = fit.curve;
      held_out = fit.held_out;
      curve.fixed = std::min(curve.fixed, text::to_number(need(k, "fixed")));
      curve.residual = std::max(curve.residual, number_or(k, "residual", 0));
      fmt::print("{:42} {:9} {:6} {:6} | {:5.1f} {:5.1f}\n", file, entry.key, it->second.size(),
                 held_out.points, 100 * held_out.median, 100 * held_out.p95);
    } else {
      static_cast<cost::AttentionPass&>(curve) = published_pass(k);
    }
    // Of a relative's points: how much faster this device is.
    for (auto& [dimension, rate] : curve.rate) {
      rate *= number_or(k, "scale", 1);
    }
    curve.backward = text::to_number(need(k, "backward"));
    if (const text::Value* backward = k.find("backward_pass")) {
      curve.backward_pass = published_pass(*backward);
    }
    out += cost::attention_text(entry.key, curve, held_out, text::to_string(need(k, "source")));
  }
  write(directory / file, out, check);
}

void fit_memory_source(const fs::path& directory, const text::Value& source, bool check) {
  const std::string& file = text::to_string(need(source, "file"));
  std::string out = cost::head_text(
      {"memory", strings(need(source, "devices")), "any", text::to_string(need(source, "source"))});
  std::map<std::string, std::vector<cost::MemoryPoint>> all;
  if (const text::Value* points = source.find("points")) {
    all = cost::read_memory_points(directory / text::to_string(*points));
  }
  for (const auto& entry : need(source, "ops").entries) {
    const text::Value& o = entry.value;
    if (!cost::parse_memory_op(entry.key)) {
      throw InputError(
          Fault{entry.origin, fmt::format("'{}' is no memory-bound operator", entry.key)});
    }
    cost::MemoryCurve curve;
    if (const text::Value* share = o.find("share")) {
      curve.fixed = text::to_number(need(o, "fixed"));
      curve.share = text::to_number(*share);
      curve.residual = text::to_number(need(o, "residual"));
    } else {
      const std::string measured = text_or(o, "measured_as", entry.key);
      if (!all.contains(measured)) {
        throw InputError(Fault{entry.origin, fmt::format("no points of operator '{}'", measured)});
      }
      const cost::MemoryFit fit =
          cost::fit_memory(all.at(measured), text::to_number(need(source, "bandwidth")));
      curve = fit.curve;
      // Timed from the host: the launch, which a job pays on its host stream, is part of the fit.
      curve.fixed = std::min(curve.fixed, kDeviceFixed);
      curve.share = std::min(1.0, curve.share * number_or(o, "scale", 1));
      curve.residual = std::max(curve.residual, number_or(o, "residual", 0));
      fmt::print("{:42} {:13} {:6} {:6} | {:5.1f} {:5.1f}\n", file, entry.key,
                 all.at(measured).size(), fit.held_out.points, 100 * fit.held_out.median,
                 100 * fit.held_out.p95);
    }
    out += cost::memory_text(entry.key, curve, text_or(o, "source", "fitted to the points"));
  }
  write(directory / file, out, check);
}

// Rates alone: the middle one of each kind, and how far they lie apart.
void fit_copy_source(const fs::path& directory, const text::Value& source, bool check) {
  const text::Table table = text::read_csv(directory / text::to_string(need(source, "points")));
  std::map<std::string, std::vector<double>> rates;
  for (const auto& row : table.rows) {
    const double rate = std::stod(row.at(table.column("bytes_per_second")));
    rates[row.at(table.column("kind"))].push_back(rate);
  }
  std::string out = cost::head_text(
      {"copy", strings(need(source, "devices")), "any", text::to_string(need(source, "source"))});
  for (auto& [name, all] : rates) {
    const auto kind = cost::parse_copy(name);
    if (!kind) {
      throw InputError(Fault{source.origin, fmt::format("'{}' is no kind of copy", name)});
    }
    std::sort(all.begin(), all.end());
    cost::CopyCurve curve;
    curve.latency = cost::kCopyLatency;
    curve.bandwidth = (all[(all.size() - 1) / 2] + all[all.size() / 2]) / 2;
    curve.residual = std::max(number_or(source, "residual", 0), all.back() / all.front() - 1);
    out +=
        cost::copy_text(kind->first, kind->second, curve, {},
                        fmt::format("{} published rate{}", all.size(), all.size() == 1 ? "" : "s"));
  }
  write(directory / text::to_string(need(source, "file")), out, check);
}

int run(const fs::path& directory, bool check) {
  const text::Value sources = text::read_yaml(directory / "sources.yaml");
  const auto spreads = measure_spreads(directory, sources);
  fmt::print(
      "GEMM, held-out quarter: |error| in % (median, 95th percentile)\n{:42} {:9} {:6} {:6} | "
      "{:11} | {:11} | {:11} | {:11}\n",
      "file", "dtype", "points", "held", "1-10 GFLOP", "10-100", "above 100", "all >= 1");
  for (const auto& source : need(sources, "gemm").items) {
    fit_gemm_source(directory, source, spreads, check);
  }
  fmt::print(
      "\nfused layers of experts, a quarter of the layers held out: |error| in % (median, 95th)\n");
  for (const auto& source : need(sources, "grouped").items) {
    fit_grouped_source(directory, source, check);
  }
  fmt::print("\nattention forward, held-out quarter: |error| in % (median, 95th percentile)\n");
  for (const auto& source : need(sources, "attention").items) {
    fit_attention_source(directory, source, check);
  }
  fmt::print("\nmemory-bound, held-out quarter: |error| in % (median, 95th percentile)\n");
  for (const auto& source : need(sources, "memory").items) {
    fit_memory_source(directory, source, check);
  }
  for (const auto& source : need(sources, "copy").items) {
    fit_copy_source(directory, source, check);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3 || (argc == 3 && std::string(argv[2]) != "--check")) {
    fmt::print(stderr, "usage: fit_kernels CALIBRATION_DIRECTORY [--check]\n");
    return 2;
  }
  try {
    return run(argv[1], argc == 3);
  } catch (const InputError& e) {
    for (const Fault& f : e.faults()) {
      fmt::print(stderr, "{}\n", to_string(f));
    }
    return 2;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
