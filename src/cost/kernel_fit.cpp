#include "stepcast/cost/kernel_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "attention_fit.h"
#include "calibration_file.h"
#include "calibration_write.h"
#include "copy_fit.h"
#include "datasheet.h"
#include "folds.h"
#include "kernel_fit_gemm.h"
#include "memory_fit.h"
#include "overlap_fit.h"

namespace stepcast::cost {
namespace {

constexpr double kMinCachePasses = 1.8;  // two passes, less the noise of a fit
constexpr double kWorthwhile = 0.9;      // a further term must cut the held-out error to this share

const char* const kComment = "Written by simulate calibrate gpu; do not edit.";

class Fitter {
 public:
  Fitter(const job::Device& device, std::string library, const KernelSamples& samples,
         std::string source)
      : device_(device),
        library_(std::move(library)),
        samples_(samples),
        source_(std::move(source)) {}

  KernelFit run() {
    gemm();
    attention();
    memory();
    copies();
    overlap();
    launch();
    return std::move(out_);
  }

 private:
  void refuse(const std::string& curve, const std::string& why) {
    out_.refused.push_back(curve + ": " + why);
  }

  void write(const std::string& kind, const std::string& name, const std::string& library,
             const std::string& curves) {
    if (!curves.empty()) {
      out_.files.push_back(
          {name, head_text({kind, {device_.name}, library, source_, kComment}) + curves});
    }
  }

  // ---------------------------------------------------------------- GEMM
  void gemm() {
    std::string curves;
    for (const auto& [dtype, all] : samples_.gemm) {
      const std::string name = std::string("gemm ") + job::to_string(dtype);
      try {
        GemmCurveFit fit = fit_gemm_curve(device_, dtype, all, name);
        curves += fit.yaml;
        out_.rows.insert(out_.rows.end(), fit.rows.begin(), fit.rows.end());
      } catch (const std::invalid_argument& e) {
        refuse(name, e.what());
      }
    }
    write("gemm", "gemm-" + library_ + ".yaml", library_, curves);
  }

  // ---------------------------------------------------------------- attention
  void attention() {
    std::string curves;
    for (const auto& [kernel, all] : samples_.attention) {
      const std::string name = std::string("attention ") + to_string(kernel);
      try {
        curves += one_attention(kernel, all, name);
      } catch (const std::invalid_argument& e) {
        refuse(name, e.what());
      }
    }
    write("attention", "attention.yaml", "any", curves);
  }

  // A table of an inference engine includes writing keys and values into its cache, which reads and
  // writes them: at least two passes. A fitted term of fewer passes is time of the kernel itself.
  static PassFit fit_forward(const std::vector<AttentionPoint>& points, double rate,
                             const AttentionDevice& device) {
    PassFit plain = fit_pass(points, false, rate, device);
    PassFit paged = fit_pass(points, false, rate, device, true);
    const bool written =
        std::all_of(paged.pass.cache.begin(), paged.pass.cache.end(),
                    [](const auto& of_dim) { return of_dim.second > kMinCachePasses; });
    return written && paged.held_out.median < kWorthwhile * plain.held_out.median ? paged : plain;
  }

  std::string one_attention(job::AttentionKernel kernel, const std::vector<AttentionSample>& all,
                            const std::string& name) {
    std::vector<AttentionPoint> forward;
    std::vector<AttentionPoint> backward;
    for (const AttentionSample& s : all) {
      (s.backward ? backward : forward).push_back({s.shape, s.seconds});
    }
    const AttentionDevice device{sms_of(device_), stream_bandwidth()};
    const AttentionCurve sheet = datasheet_attention(device_, kernel, job::DType::bf16);
    const PassFit fit = fit_forward(forward, sheet.rate.at(128), device);
    require_law(fit.held_out.deviation);
    out_.rows.push_back(row_of(name + " forward", "all", static_cast<int>(forward.size()),
                               fit.held_out, fit.outliers));
    AttentionCurve curve;
    static_cast<AttentionPass&>(curve) = fit.pass;
    curve.backward = sheet.backward;
    std::string source = fmt::format("{} forward points", forward.size());
    SizeClass backward_held_out;
    try {
      const BackwardFit back = fit_backward(fit.pass, backward, device);
      require_law(back.own && back.own_is_better ? back.own->held_out.deviation
                                                 : back.ratio_held_out.deviation);
      curve.backward = std::clamp(back.ratio, 0.05, 2.0);
      const int count = static_cast<int>(backward.size());
      out_.rows.push_back(
          row_of(name + " backward, by one ratio", "all", count, back.ratio_held_out));
      if (back.own) {
        out_.rows.push_back(row_of(name + " backward, by rates of its own", "all", count,
                                   back.own->held_out, back.own->outliers));
      }
      source += fmt::format(", {} backward", backward.size());
      if (back.own && back.own_is_better) {
        curve.backward_pass = back.own->pass;
        backward_held_out = back.own->held_out;
      }
    } catch (const std::invalid_argument& e) {
      refuse(name + " backward", e.what());
      source += fmt::format(
          "; backward pass not measured: {:.2f} of the forward rate, as on other devices",
          curve.backward);
    }
    return attention_text(to_string(kernel), curve, fit.held_out, source, backward_held_out);
  }

  // Bandwidth of a streaming copy, as measured here, else by the data sheet.
  double stream_bandwidth() const {
    double share = datasheet_memory(MemoryOp::copy).share;
    const auto it = samples_.memory.find(MemoryOp::copy);
    if (it != samples_.memory.end()) {
      try {
        share = fit_memory_sizes(points_of(it->second), device_.memory_bandwidth.count(), l2())
                    .curve.share;
      } catch (const std::invalid_argument&) {
        // The data sheet's share is used.
      }
    }
    return share * device_.memory_bandwidth.count();
  }

  double l2() const { return static_cast<double>(device_.l2.count()); }

  static std::vector<MemoryPoint> points_of(const std::vector<MemorySample>& samples,
                                            bool backward = false) {
    std::vector<MemoryPoint> points;
    for (const MemorySample& s : samples) {
      if (s.backward == backward) {
        points.push_back({s.bytes, s.seconds});
      }
    }
    return points;
  }

  // ---------------------------------------------------------------- the rest
  MemoryCurve one_pass(const std::vector<MemoryPoint>& points, const std::string& name) {
    const MemoryFit fit = fit_memory_sizes(points, device_.memory_bandwidth.count(), l2());
    require_law(fit.held_out.deviation);
    out_.rows.push_back(
        row_of(name, "all", static_cast<int>(points.size()), fit.held_out, fit.outliers));
    return fit.curve;
  }

  void memory() {
    std::string curves;
    for (const auto& [op, all] : samples_.memory) {
      const std::string name = std::string("memory ") + to_string(op);
      try {
        MemoryCurve curve = one_pass(points_of(all), name);
        std::string source = fmt::format("{} points", all.size());
        // A backward pass that was not measured is priced as the forward one.
        if (const auto backward = points_of(all, true); !backward.empty()) {
          try {
            curve.backward_pass = one_pass(backward, name + " backward");
            source += fmt::format(", {} of them backward", backward.size());
          } catch (const std::invalid_argument& e) {
            refuse(name + " backward", e.what());
          }
        }
        curves += memory_text(to_string(op), curve, source);
      } catch (const std::invalid_argument& e) {
        refuse(name, e.what());
      }
    }
    write("memory", "memory.yaml", "any", curves);
  }

  void copies() {
    std::map<std::pair<CopyDirection, bool>, std::vector<CopySample>> kinds;
    for (const CopySample& s : samples_.copies) {
      kinds[{s.direction, s.pinned || s.direction == CopyDirection::device_to_device}].push_back(s);
    }
    std::string curves;
    for (const auto& [kind, all] : kinds) {
      const std::string name = "copy " + copy_name(kind.first, kind.second);
      try {
        const CopyFit fit = fit_copy(all);
        require_law(fit.held_out.deviation);
        curves += copy_text(kind.first, kind.second, fit.curve, fit.held_out,
                            fmt::format("{} points", all.size()));
        out_.rows.push_back(
            row_of(name, "all", static_cast<int>(all.size()), fit.held_out, fit.outliers));
      } catch (const std::invalid_argument& e) {
        refuse(name, e.what());
      }
    }
    write("copy", "copy.yaml", "any", curves);
  }

  void overlap() {
    if (samples_.overlap.empty()) {
      return;
    }
    std::string curves;
    const auto add = [&](const char* key, const auto& fit) {
      const std::string name = std::string("overlap ") + key;
      try {
        const Coefficient c = fit();
        require_law(c.residual);
        curves += coefficient_text(key, c.value, c.residual, c.points,
                                   fmt::format("{} kernels beside a collective", c.points));
        SizeClass held;
        held.points = c.points;
        held.median = c.median;
        held.p95 = c.p95;
        out_.rows.push_back(row_of(name, "all", c.points, held));
      } catch (const std::invalid_argument& e) {
        refuse(name, e.what());
      }
    };
    add("arithmetic", [&] { return fit_overlap(samples_.overlap, false, sms_of(device_)); });
    add("memory", [&] { return fit_overlap(samples_.overlap, true, sms_of(device_)); });
    add("collective", [&] { return fit_collective_loss(samples_.overlap); });
    write("overlap", "overlap.yaml", "any", curves);
  }

  void launch() {
    if (samples_.launch <= 0) {
      return;
    }
    LaunchCurve c;
    c.host = samples_.launch;
    c.graph = std::max(0.0, samples_.graph_kernel);
    write("launch", "launch.yaml", "any", launch_text(c));
  }

  const job::Device& device_;
  std::string library_;
  const KernelSamples& samples_;
  std::string source_;
  KernelFit out_;
};

}  // namespace

KernelFit fit_kernels(const job::Device& device, const std::string& library,
                      const KernelSamples& samples, const std::string& source) {
  return Fitter(device, library, samples, source).run();
}

}  // namespace stepcast::cost
