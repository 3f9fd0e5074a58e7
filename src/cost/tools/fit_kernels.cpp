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
#include <set>

#include "../calibration_write.h"
#include "../copy_fit.h"
#include "../datasheet.h"
#include "../points.h"
#include "gemm_tables.h"
#include "sources.h"
#include "stepcast/base/statistics.h"
#include "stepcast/text/document.h"

namespace {

using namespace stepcast;
using namespace stepcast::tools;

// Duration of the smallest kernels on the device itself (Vidur's traces of A100 and H100: 2
// us).
constexpr double kDeviceFixed = 2e-6;

// A pass from published rates: the parameters of the law, with one rate for each head dimension.
cost::AttentionPass published_pass(const text::Value& v) {
  cost::AttentionPass pass;
  pass.fixed = text::to_number(need(v, "fixed"));
  pass.prologue = text::to_number(need(v, "prologue"));
  pass.tail = text::to_number(need(v, "tail"));
  if (const text::Value* longest = v.find("longest")) {
    pass.longest = text::to_number(*longest);
  }
  pass.residual = text::to_number(need(v, "residual"));
  for (const auto& rate : need(v, "rate").entries) {
    pass.rate[std::stoi(rate.key)] = text::to_number(rate.value);
  }
  return pass;
}

// Points of one kernel, without a causal mask and without an inference engine's cache.
std::vector<cost::AttentionPoint> full_points(const fs::path& file, const text::Value& kernel,
                                              const std::string& name) {
  const auto all = cost::read_attention_points(file, text::to_integer(need(kernel, "shortest")),
                                               /*causal=*/false);
  const auto it = all.find(name);
  if (it == all.end()) {
    throw InputError(Fault{kernel.origin, "no points of this kernel"});
  }
  std::vector<cost::AttentionPoint> out = it->second;
  for (cost::AttentionPoint& p : out) {
    p.paged = false;
  }
  return out;
}

// The forward pass of a kernel of which points were measured.
cost::AttentionFit fit_forward(const fs::path& directory, const text::Value& k,
                               const std::string& name, const cost::AttentionDevice& device) {
  std::vector<cost::AttentionPoint> points;
  if (const text::Value* causal = k.find("points")) {
    const auto all = cost::read_attention_points(directory / text::to_string(*causal),
                                                 text::to_integer(need(k, "shortest")));
    const auto it = all.find(name);
    if (it == all.end()) {
      throw InputError(Fault{k.origin, "no points of this kernel"});
    }
    points = it->second;
  }
  if (const text::Value* full = k.find("full_points")) {
    // Head dimensions that the causal table has are left to it.
    std::set<int> measured;
    for (const cost::AttentionPoint& p : points) {
      measured.insert(p.shape.qk_dim);
    }
    for (const cost::AttentionPoint& p : full_points(directory / text::to_string(*full), k, name)) {
      if (!measured.contains(p.shape.qk_dim)) {
        points.push_back(p);
      }
    }
  }
  return cost::fit_attention(points, text::to_number(need(k, "rate")), device,
                             text_or(k, "paged", "false") == "true");
}

void show_fit(const std::string& file, const std::string& name, const cost::SizeClass& held_out) {
  fmt::print("{:42} {:16} {:6} | {:5.1f} {:5.1f}\n", file, name, held_out.points,
             100 * held_out.median, 100 * held_out.p95);
}

// The backward pass: parameters of its own, measured or published; else the ratio stands.
cost::SizeClass fit_backward_pass(const fs::path& directory, const text::Value& k,
                                  const std::string& name, const cost::AttentionDevice& device,
                                  cost::AttentionCurve& curve) {
  if (const text::Value* backward = k.find("backward_pass")) {
    curve.backward_pass = published_pass(*backward);
  }
  const text::Value* points = k.find("backward_points");
  if (points == nullptr) {
    return {};
  }
  const cost::PassFit fit =
      cost::fit_pass(full_points(directory / text::to_string(*points), k, name), true,
                     curve.backward * text::to_number(need(k, "rate")), device);
  curve.backward_pass = fit.pass;
  curve.backward_pass->residual = std::max(fit.pass.residual, number_or(k, "residual", 0));
  return fit.held_out;
}

// Points of one pass of a kernel, timed alone on the device, causal and not: rows named "cudnn
// backward causal" and "cudnn backward full".
std::vector<cost::AttentionPoint> measured_points(const fs::path& file, const std::string& pass) {
  std::vector<cost::AttentionPoint> out;
  for (const bool causal : {true, false}) {
    const auto all = cost::read_attention_points(file, 1, causal);
    const auto it = all.find(pass + (causal ? " causal" : " full"));
    if (it != all.end()) {
      for (cost::AttentionPoint p : it->second) {
        p.paged = false;
        out.push_back(p);
      }
    }
  }
  return out;
}

// Both passes of a kernel from such points, as `simulate calibrate gpu` fits them.
cost::AttentionCurve fit_measured(const fs::path& file, const text::Value& k,
                                  const std::string& name, const cost::AttentionDevice& device,
                                  cost::SizeClass& forward, cost::SizeClass& backward) {
  const double rate = text::to_number(need(k, "rate"));
  const cost::PassFit fit =
      cost::fit_pass(measured_points(file, name + " forward"), false, rate, device);
  cost::AttentionCurve curve;
  static_cast<cost::AttentionPass&>(curve) = fit.pass;
  forward = fit.held_out;
  const cost::BackwardFit back =
      cost::fit_backward(fit.pass, measured_points(file, name + " backward"), device);
  curve.backward = back.ratio;
  backward = back.ratio_held_out;
  if (back.own && back.own_is_better) {
    curve.backward_pass = back.own->pass;
    backward = back.own->held_out;
    curve.backward_pass->residual =
        std::max(curve.backward_pass->residual, number_or(k, "residual", 0));
  }
  return curve;
}

void fit_attention_source(const fs::path& directory, const text::Value& source, bool check) {
  const std::string& file = text::to_string(need(source, "file"));
  std::string out = cost::head_text({"attention", strings(need(source, "devices")), "any",
                                     text::to_string(need(source, "source"))});
  for (const auto& entry : need(source, "kernels").entries) {
    const text::Value& k = entry.value;
    if (!parse<AttentionKernel>(entry.key)) {
      throw InputError(
          Fault{entry.origin, fmt::format("'{}' is not an attention kernel", entry.key)});
    }
    cost::AttentionCurve curve;
    cost::SizeClass held_out;
    cost::SizeClass backward;
    const cost::AttentionDevice device{static_cast<int>(text::to_integer(need(source, "sms"))),
                                       text::to_number(need(source, "bandwidth"))};
    if (const text::Value* measured = k.find("measured_points")) {
      curve = fit_measured(directory / text::to_string(*measured), k, entry.key, device, held_out,
                           backward);
      curve.residual = std::max(curve.residual, number_or(k, "residual", 0));
      show_fit(file, entry.key, held_out);
    } else if (k.find("points") != nullptr || k.find("full_points") != nullptr) {
      const cost::AttentionFit fit = fit_forward(directory, k, entry.key, device);
      curve = fit.curve;
      held_out = fit.held_out;
      curve.fixed = std::min(curve.fixed, text::to_number(need(k, "fixed")));
      curve.residual = std::max(curve.residual, number_or(k, "residual", 0));
      show_fit(file, entry.key, held_out);
    } else {
      static_cast<cost::AttentionPass&>(curve) = published_pass(k);
    }
    // The points may be of a similar device: `scale` is how much faster this one is.
    for (auto& [dimension, rate] : curve.rate) {
      rate *= number_or(k, "scale", 1);
    }
    if (k.find("measured_points") == nullptr) {
      curve.backward = text::to_number(need(k, "backward"));
    }
    if (const text::Value* training = k.find("training")) {
      curve.burst = text::to_number(need(*training, "burst"));
      curve.training = text::to_number(need(*training, "level"));
    }
    if (k.find("measured_points") == nullptr) {
      backward = fit_backward_pass(directory, k, entry.key, device, curve);
    }
    if (backward.points > 0) {
      show_fit(file, entry.key + " backward", backward);
    }
    out += cost::attention_text(entry.key, curve, held_out, text::to_string(need(k, "source")),
                                backward);
  }
  write(directory / file, out, check);
}

struct Named {
  const std::string& file;
  std::string kernel;
};

// `o`: the entry's `scale` and least `residual`. `moved`: share of the bytes under the law of rows,
// 0 without it. `fixed`: at most; where the points were timed from
// the host, the fit includes the launch, which jobs count on their host stream. `l2`: bytes, where
// the points were timed on the device from a cold L2; 0: a table timed from the host.
cost::MemoryPass fit_memory_pass(const Named& name, const std::vector<cost::MemoryPoint>& points,
                                 double bandwidth, double fixed, const text::Value& o, double moved,
                                 double l2) {
  const cost::MemoryFit fit = l2 > 0 ? cost::fit_memory_sizes(points, bandwidth, l2)
                                     : cost::fit_memory(points, bandwidth, moved);
  cost::MemoryPass pass = fit.curve;
  pass.fixed = std::min(pass.fixed, fixed);
  pass.share = std::min(1.0, pass.share * number_or(o, "scale", 1));
  pass.residual = std::max(pass.residual, number_or(o, "residual", 0));
  show_fit(name.file, name.kernel, fit.held_out);
  return pass;
}

// A pass by its parameters, measured or published.
cost::MemoryPass stated_pass(const text::Value& v) {
  cost::MemoryPass pass;
  pass.fixed = text::to_number(need(v, "fixed"));
  pass.share = text::to_number(need(v, "share"));
  pass.residual = text::to_number(need(v, "residual"));
  pass.ramp = number_or(v, "ramp", 1);
  if (const text::Value* start = v.find("start")) {
    pass.start = text::to_number(*start);
    pass.start_rate = text::to_number(need(v, "start_rate"));
  }
  return pass;
}

void fit_memory_source(const fs::path& directory, const text::Value& source, bool check) {
  const std::string& file = text::to_string(need(source, "file"));
  std::string out = cost::head_text(
      {"memory", strings(need(source, "devices")), "any", text::to_string(need(source, "source"))});
  std::map<std::string, std::vector<cost::MemoryPoint>> all;
  if (const text::Value* points = source.find("points")) {
    all = cost::read_memory_points(directory / text::to_string(*points));
  }
  std::map<std::string, std::vector<cost::MemoryPoint>> backward;
  if (const text::Value* points = source.find("backward_points")) {
    backward = cost::read_memory_points(directory / text::to_string(*points));
  }
  const double l2 = number_or(source, "l2", 0);
  for (const auto& entry : need(source, "ops").entries) {
    const text::Value& o = entry.value;
    if (!parse<cost::MemoryOp>(entry.key)) {
      throw InputError(
          Fault{entry.origin, fmt::format("'{}' is not a memory-bound operator", entry.key)});
    }
    cost::MemoryCurve curve;
    if (o.find("share") != nullptr) {
      static_cast<cost::MemoryPass&>(curve) = stated_pass(o);
    } else {
      const std::string measured = text_or(o, "measured_as", entry.key);
      if (!all.contains(measured)) {
        throw InputError(Fault{entry.origin, fmt::format("no points of operator '{}'", measured)});
      }
      static_cast<cost::MemoryPass&>(curve) = fit_memory_pass(
          {file, entry.key}, all.at(measured), text::to_number(need(source, "bandwidth")),
          number_or(source, "fixed", kDeviceFixed), o, number_or(o, "moved", 0), l2);
    }
    if (const text::Value* stated = o.find("backward_pass")) {
      curve.backward_pass = stated_pass(*stated);
    } else if (backward.contains(entry.key)) {
      curve.backward_pass = fit_memory_pass(
          {file, entry.key + " backward"}, backward.at(entry.key),
          number_or(source, "backward_bandwidth", text::to_number(need(source, "bandwidth"))),
          number_or(source, "backward_fixed", kDeviceFixed), l2 > 0 ? o : text::Value{},
          number_or(o, "moved_backward", 0), l2);
    }
    out += cost::memory_text(entry.key, curve, text_or(o, "source", "fitted to the points"));
  }
  write(directory / file, out, check);
}

// Times by sizes of each kind, as calibrate-gpu measures them.
std::map<std::string, std::vector<cost::CopySample>> copy_sizes(const fs::path& file) {
  std::map<std::string, std::vector<cost::CopySample>> out;
  for (const auto& [name, points] : cost::read_copy_points(file)) {
    const auto kind = cost::parse_copy(name);
    if (!kind) {
      throw InputError(Fault{{file, 1, 0}, fmt::format("'{}' is not a kind of copy", name)});
    }
    for (const cost::MemoryPoint& p : points) {
      out[name].push_back({kind->first, kind->second, p.bytes, p.seconds});
    }
  }
  return out;
}

// Published rates without sizes: the median of each kind, with the spread as residual. Where sizes
// were measured, they give latency and rate, and published rates the spread between hosts.
void fit_copy_source(const fs::path& directory, const text::Value& source, bool check) {
  const text::Table table = text::read_csv(directory / text::to_string(need(source, "points")));
  std::map<std::string, std::vector<double>> rates;
  for (const auto& row : table.rows) {
    const double rate = std::stod(row.at(table.column("bytes_per_second")));
    rates[row.at(table.column("kind"))].push_back(rate);
  }
  std::map<std::string, std::vector<cost::CopySample>> sizes;
  if (const text::Value* measured = source.find("sizes")) {
    sizes = copy_sizes(directory / text::to_string(*measured));
  }
  for (const auto& [name, samples] : sizes) {
    rates.try_emplace(name);
  }
  std::string out = cost::head_text(
      {"copy", strings(need(source, "devices")), "any", text::to_string(need(source, "source"))});
  for (auto& [name, all] : rates) {
    const auto kind = cost::parse_copy(name);
    if (!kind) {
      throw InputError(Fault{source.origin, fmt::format("'{}' is not a kind of copy", name)});
    }
    cost::CopyCurve curve;
    cost::SizeClass held_out;
    std::string note;
    const std::size_t published = all.size();
    if (sizes.contains(name)) {
      const cost::CopyFit fit = cost::fit_copy(sizes.at(name));
      curve = fit.curve;
      held_out = fit.held_out;
      note = fmt::format("{} sizes", sizes.at(name).size());
      all.push_back(curve.bandwidth);
    }
    std::sort(all.begin(), all.end());
    if (note.empty()) {
      curve.latency = cost::kCopyLatency;
      curve.bandwidth = median(all);
    }
    if (published > 0) {
      note += fmt::format("{}{} published rate{}", note.empty() ? "" : ", ", published,
                          published == 1 ? "" : "s");
    }
    curve.residual =
        std::max({curve.residual, number_or(source, "residual", 0), all.back() / all.front() - 1});
    out += cost::copy_text(kind->first, kind->second, curve, held_out, note);
  }
  write(directory / text::to_string(need(source, "file")), out, check);
}

// Launches, as calibrate-gpu measured them.
void write_launch_source(const fs::path& directory, const text::Value& source, bool check) {
  cost::LaunchCurve curve;
  curve.host = text::to_number(need(source, "host"));
  curve.graph = text::to_number(need(source, "graph"));
  curve.residual = text::to_number(need(source, "residual"));
  write(directory / text::to_string(need(source, "file")),
        cost::head_text({"launch", strings(need(source, "devices")), "any",
                         text::to_string(need(source, "source"))}) +
            cost::launch_text(curve),
        check);
}

int run(const fs::path& directory, bool check) {
  const text::Value sources = text::read_yaml(directory / "sources.yaml");
  fit_gemm_sources(directory, sources, check);
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
  for (const auto& source : need(sources, "launch").items) {
    write_launch_source(directory, source, check);
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
