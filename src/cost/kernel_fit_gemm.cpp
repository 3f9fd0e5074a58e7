#include "kernel_fit_gemm.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <stdexcept>

#include "calibration_file.h"
#include "calibration_write.h"
#include "datasheet.h"
#include "folds.h"
#include "row_alignment.h"
#include "stepcast/base/statistics.h"
#include "stepcast/text/document.h"

namespace stepcast::cost {
namespace {

constexpr std::size_t kMinGemmShapes = 40;
constexpr std::size_t kMinLayout = 8;  // points of a layout for a factor of its own
// Number of long runs from which on the deviation of their level is estimated.
constexpr std::size_t kManySustained = 3;
constexpr double kFewSustainedDeviation = 0.05;  // least deviation with fewer long runs
constexpr std::size_t kMinUnaligned = 3;
constexpr std::size_t kMinGrouped = 4;
constexpr double kGemmSpan = 100;  // least ratio of the largest to the smallest GEMM, in FLOPs
// Level of long runs over bursts where it was not measured: 0.88 (A100, H100) to 0.90 (GB300) on
// the measured devices; with the deviations of such a level and of one borrowed from a committed
// file (calibration/sources.yaml).
constexpr double kUnmeasuredLongRun = 0.89;
constexpr double kUnmeasuredDeviation = 0.1;
constexpr double kBorrowedDeviation = 0.06;
// The fused cast and transpose before a product below 16 bits reads an element in bf16 and writes
// it twice (Transformer Engine's cast_transpose). calibrate-gpu times products without casts;
// published tables include casts of 2 bytes an element and more, to which the law's own term is
// fitted.
constexpr double kBytesBeforeCast = 2;
constexpr double kCastCopies = 2;
// Bytes an element of the law's term from which on the points include casts.
constexpr double kMinMeasuredCast = 1;
// Seconds: errors of longer GEMMs are reported as a class of their own.
constexpr double kLongGemm = 50e-6;

// Half the distance between the outer sixths: a standard deviation that outliers do not move.
double spread_of(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return (nearest_quantile(x, 0.84) - nearest_quantile(x, 0.16)) / 2;
}

double flops_of(const model::Gemm& g) {
  return 2.0 * static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k) *
         static_cast<double>(g.batch);
}

ElementBytes element_bytes(job::DType t) {
  const double in = t == job::DType::nvfp4   ? 0.5625
                    : t == job::DType::mxfp4 ? 0.53125
                                             : job::bytes_per_element(t);
  return {in, std::max(2.0, job::bytes_per_element(t))};
}

GemmPoint point_of(const GemmSample& s) {
  return {s.shape.m, s.shape.n, s.shape.k, s.shape.batch * s.groups, s.seconds};
}

GemmSample sample_of(const GemmPoint& p) {
  GemmSample s;
  s.shape = {p.m, p.n, p.k, p.batch};
  s.seconds = p.seconds;
  return s;
}

// ln(measured / law) of one sample alone on the device.
double log_ratio(const GemmLaw& law, const GemmSample& s, ElementBytes e) {
  const auto m = static_cast<double>(s.shape.m);
  const auto n = static_cast<double>(s.shape.n);
  const auto k = static_cast<double>(s.shape.k);
  const auto batch = static_cast<double>(s.shape.batch) * s.groups;
  const double out = s.accumulate_fp32 ? 8 : e.out;
  const GemmWork work{m, n, k, batch, gemm_bytes(m, n, k, batch, e.in, out)};
  return std::log(s.seconds / gemm_seconds(law, work));
}

bool aligned(const GemmSample& s, ElementBytes e) {
  return row_alignment(s.shape, s.layout, e.in) >= kRowAlignment;
}

// One format on one device. Products with unaligned rows have a factor of their own, and all other
// figures are those of aligned ones.
class GemmCurveFitter {
 public:
  explicit GemmCurveFitter(const job::Device& device) : device_(device) {}

  GemmCurveFit run(job::DType dtype, const std::vector<GemmSample>& all, const std::string& name) {
    out_.yaml = one_gemm(dtype, all, name);
    return std::move(out_);
  }

 private:
  std::string one_gemm(job::DType dtype, const std::vector<GemmSample>& all,
                       const std::string& name) {
    const ElementBytes element = element_bytes(dtype);
    std::vector<GemmPoint> points;
    std::set<std::array<std::int64_t, 4>> shapes;
    double least = INFINITY;
    double most = 0;
    for (const GemmSample& s : all) {
      if (s.layout == Layout::forward && !s.accumulate_fp32 && s.groups == 1 && !s.sustained &&
          aligned(s, element)) {
        points.push_back(point_of(s));
        shapes.insert({s.shape.m, s.shape.n, s.shape.k, s.shape.batch});
        least = std::min(least, flops_of(s.shape));
        most = std::max(most, flops_of(s.shape));
      }
    }
    if (shapes.size() < kMinGemmShapes) {
      throw std::invalid_argument(
          fmt::format("{} shapes of the forward layout are too few for a fit: at least {} are "
                      "needed",
                      shapes.size(), kMinGemmShapes));
    }
    if (most < kGemmSpan * least) {
      throw std::invalid_argument(fmt::format(
          "all shapes are of nearly one size, {:.3g} to {:.3g} FLOPs: they must span a factor of "
          "{:g}",
          least, most, kGemmSpan));
    }
    GemmLaw start;
    start.sms = sms_of(device_);
    start.bandwidth = device_.memory_bandwidth.count();
    start.rate = peak_flops(device_, dtype);
    start.fixed = 3e-6;
    start.tail = 0.8;
    const GemmFit fit = fit_gemm(points, start, element);
    GemmCurve curve;
    curve.law = fit.law;
    curve.residual =
        fit.held_out[4].points > 0 ? fit.held_out[4].deviation : fit.held_out[0].deviation;
    require_law(curve.residual);
    gemm_rows(name, points, fit, start, element);
    GemmNotes notes;
    layouts(all, element, name, curve, notes);
    grouped(all, element, name, curve, notes);
    long_runs(dtype, all, element, name, curve, notes);
    if (element.in < kBytesBeforeCast && curve.law.quantise < kMinMeasuredCast) {
      curve.casts = kBytesBeforeCast + kCastCopies * element.in;
      notes.casts_source =
          "not measured: products were timed alone; one fused cast and transpose of each "
          "activation";
    }
    return gemm_text(job::to_string(dtype), curve, fit.held_out, notes);
  }

  void gemm_rows(const std::string& name, const std::vector<GemmPoint>& points, const GemmFit& fit,
                 const GemmLaw& start, ElementBytes element) {
    static const std::array<const char*, 5> kSizes = {
        "below 1 GFLOP", "1 to 10 GFLOP", "10 to 100 GFLOP", "above 100 GFLOP", "from 1 GFLOP"};
    const SizeClasses seen = errors(fit.law, points, element);
    std::vector<double> off;
    for (const GemmPoint& p : points) {
      off.push_back(log_ratio(fit.law, sample_of(p), element));
    }
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      if (fit.held_out[i].points > 0) {
        // Outliers are counted over all sizes, as the fit limits their weight over all sizes.
        const int outliers = i + 1 == kSizes.size() ? count_outliers(off) : 0;
        out_.rows.push_back(row_of(name, kSizes[i], seen[i].points, fit.held_out[i], outliers));
      }
    }
    // The class of long GEMMs: a fit without the held-out quarter, with its errors on the long
    // kernels of that quarter.
    std::vector<GemmPoint> rest;
    std::vector<GemmPoint> held;
    int longs = 0;
    for (const GemmPoint& p : points) {
      longs += p.seconds > kLongGemm ? 1 : 0;
      if (!is_held_out(p)) {
        rest.push_back(p);
      } else if (p.seconds > kLongGemm) {
        held.push_back(p);
      }
    }
    if (held.empty() || rest.size() < kMinGemmShapes) {
      return;
    }
    const GemmLaw blind = fit_gemm(rest, start, element).law;
    std::vector<double> ratios;
    for (const GemmPoint& p : held) {
      ratios.push_back(-log_ratio(blind, sample_of(p), element));
    }
    out_.rows.push_back(row_of(name, "above 50 us", longs, summary(ratios)));
  }

  // ln(measured/law) of the samples that `take` accepts.
  template <class Take>
  static std::vector<double> ratios(const std::vector<GemmSample>& all, const GemmLaw& law,
                                    ElementBytes element, Take take) {
    std::vector<double> r;
    for (const GemmSample& s : all) {
      if (!s.sustained && aligned(s, element) && take(s)) {
        r.push_back(log_ratio(law, s, element));
      }
    }
    return r;
  }

  // A factor with its held-out error: each point is predicted by the median of the other folds.
  double factor_of(const std::vector<double>& logs, const std::string& name,
                   const std::string& what, double* residual = nullptr) {
    std::vector<double> unseen;
    for (std::size_t fold = 0; fold < kFolds; ++fold) {
      std::vector<double> others;
      for (std::size_t i = 0; i < logs.size(); ++i) {
        if (i % kFolds != fold) {
          others.push_back(logs[i]);
        }
      }
      for (std::size_t i = fold; i < logs.size() && !others.empty(); i += kFolds) {
        unseen.push_back(upper_median(others) - logs[i]);
      }
    }
    const double middle = upper_median(logs);
    std::vector<double> off = logs;
    for (double& x : off) {
      x -= middle;
    }
    const SizeClass held_out = summary(unseen);
    require_law(held_out.deviation, what);
    if (residual != nullptr) {
      *residual = held_out.deviation;
    }
    out_.rows.push_back(
        row_of(name, what, static_cast<int>(logs.size()), held_out, count_outliers(off)));
    return std::exp(middle);
  }

  void layouts(const std::vector<GemmSample>& all, ElementBytes element, const std::string& name,
               GemmCurve& curve, GemmNotes& notes) {
    std::string source;
    const auto one = [&](Layout layout, const char* what, double& factor, double& residual) {
      const auto r = ratios(all, curve.law, element, [layout](const GemmSample& s) {
        return s.layout == layout && s.groups == 1;
      });
      source += source.empty() ? "" : "; ";
      if (r.size() < kMinLayout) {
        source +=
            fmt::format("{}: not measured ({} points), a factor of 1 is used", what, r.size());
        return;
      }
      factor = std::clamp(factor_of(r, name, what, &residual), 0.2, 5.0);
      source += fmt::format("{}: median of {} points, spread {:.1f} %", what, r.size(),
                            100 * spread_of(r));
    };
    one(Layout::input_grad, "input_grad", curve.input_grad, curve.input_grad_residual);
    one(Layout::weight_grad, "weight_grad", curve.weight_grad, curve.weight_grad_residual);
    // Accumulation in fp32 is part of the law (its bytes): its error is reported and nothing is
    // fitted.
    auto accumulated = ratios(all, curve.law, element, [](const GemmSample& s) {
      return s.accumulate_fp32 && s.groups == 1;
    });
    if (accumulated.size() >= kMinLayout) {
      for (double& r : accumulated) {
        r = std::log(curve.weight_grad) - r;
      }
      out_.rows.push_back(row_of(name, "accumulated in fp32", static_cast<int>(accumulated.size()),
                                 summary(accumulated), count_outliers(accumulated)));
    }
    unaligned(all, element, name, curve, source);
    notes.layout_source = source;
  }

  // By the bytes to which rows are aligned; all layouts together, since which of the operands is
  // unaligned matters little.
  void unaligned(const std::vector<GemmSample>& all, ElementBytes element, const std::string& name,
                 GemmCurve& curve, std::string& source) {
    std::map<int, std::vector<double>> by_alignment;
    for (const GemmSample& s : all) {
      if (!s.sustained && s.groups == 1 && !aligned(s, element)) {
        const double factor = s.layout == Layout::input_grad    ? curve.input_grad
                              : s.layout == Layout::weight_grad ? curve.weight_grad
                                                                : 1;
        by_alignment[row_alignment(s.shape, s.layout, element.in)].push_back(
            log_ratio(curve.law, s, element) - std::log(factor));
      }
    }
    for (const auto& [bytes, logs] : by_alignment) {
      if (logs.size() >= kMinUnaligned) {
        std::vector<double> off = logs;
        const double middle = upper_median(logs);
        for (double& x : off) {
          x = middle - x;
        }
        curve.unaligned[bytes] = std::clamp(std::exp(middle), 0.5, 50.0);
        const std::string what = fmt::format("rows of {} bytes", bytes);
        out_.rows.push_back(row_of(name, what, static_cast<int>(logs.size()), summary(off)));
        source += fmt::format("; {}: median of {} points, spread {:.1f} %", what, logs.size(),
                              100 * spread_of(logs));
      }
    }
  }

  void grouped(const std::vector<GemmSample>& all, ElementBytes element, const std::string& name,
               GemmCurve& curve, GemmNotes& notes) {
    const auto r =
        ratios(all, curve.law, element, [](const GemmSample& s) { return s.groups > 1; });
    if (r.size() < kMinGrouped) {
      notes.grouped_source =
          fmt::format("not measured ({} points): priced as the same tiles in one GEMM", r.size());
      curve.grouped_deviation = kUnmeasuredDeviation;
      return;
    }
    curve.grouped = std::clamp(factor_of(r, name, "grouped"), 0.2, 20.0);
    curve.grouped_deviation = spread_of(r);
    notes.grouped_source =
        fmt::format("median of {} points, spread {:.1f} %", r.size(), 100 * spread_of(r));
  }

  // Level of the fastest tenth of large products, FLOP/s.
  static double burst_level(const std::vector<GemmSample>& all) {
    std::vector<double> rates;
    for (const GemmSample& s : all) {
      if (!s.sustained && s.groups == 1 && s.layout == Layout::forward) {
        rates.push_back(flops_of(s.shape) / s.seconds);
      }
    }
    std::sort(rates.begin(), rates.end());
    return lower_percentile(rates, 95);
  }

  void long_runs(job::DType dtype, const std::vector<GemmSample>& all, ElementBytes element,
                 const std::string& name, GemmCurve& curve, GemmNotes& notes) {
    curve.burst = burst_level(all);
    struct Long {
      double burst, flops, seconds;
    };
    std::vector<Long> longs;
    for (const GemmSample& s : all) {
      if (s.sustained && s.groups == 1) {
        const double factor = s.layout == Layout::input_grad    ? curve.input_grad
                              : s.layout == Layout::weight_grad ? curve.weight_grad
                                                                : 1;
        longs.push_back({factor * s.seconds / std::exp(log_ratio(curve.law, s, element)),
                         flops_of(s.shape), s.seconds});
      }
    }
    if (longs.empty()) {
      borrow_long_run(dtype, curve, notes);
      return;
    }
    const auto errors_at = [&](double cap) {
      std::vector<double> r;
      for (const Long& l : longs) {
        r.push_back(std::log(sustained_seconds(l.burst, l.flops, cap) / l.seconds));
      }
      return r;
    };
    // The cap with the least sum of |ln| errors. It is searched on a fine grid, since the sum is
    // not a smooth function.
    double best = INFINITY;
    double cap = 0;
    for (double x = std::log(0.3); x <= std::log(1.5); x += 0.002) {
      double sum = 0;
      for (const double r : errors_at(curve.burst * std::exp(x))) {
        sum += std::min(std::abs(r), 0.3);
      }
      // Of equally good caps the highest is taken: then the points are not capped at all.
      if (sum <= best) {
        best = sum;
        cap = curve.burst * std::exp(x);
      }
    }
    const auto r = errors_at(cap);
    curve.long_run = std::min(curve.burst, 1 / sustained_seconds(1 / curve.burst, 1, cap));
    curve.cap = power_cap(curve.burst, curve.long_run);
    curve.long_run_deviation =
        std::max(spread_of(r), r.size() < kManySustained ? kFewSustainedDeviation : 0.01);
    notes.sustained_source = fmt::format("{} product{} over seconds at the power limit",
                                         longs.size(), longs.size() == 1 ? "" : "s");
    out_.rows.push_back(row_of(name, "sustained", static_cast<int>(longs.size()), summary(r)));
  }

  void borrow_long_run(job::DType dtype, GemmCurve& curve, GemmNotes& notes) const {
    const std::string missing = "no long runs were measured";
    for (const auto& file :
         find_calibration(text::data_directory() / "calibration", device_.name, {})) {
      const auto it = file->gemm.find(dtype);
      if (file->kind == CalibrationFile::Kind::gemm && it != file->gemm.end()) {
        const GemmCurve& other = it->second;
        curve.long_run = curve.burst * other.long_run / other.burst;
        curve.long_run_deviation = std::hypot(other.long_run_deviation, kBorrowedDeviation);
        notes.sustained_source = missing + ": the ratio of " + file->name;
        curve.cap = power_cap(curve.burst, curve.long_run);
        return;
      }
    }
    curve.long_run = kUnmeasuredLongRun * curve.burst;
    curve.long_run_deviation = kUnmeasuredDeviation;
    curve.cap = power_cap(curve.burst, curve.long_run);
    notes.sustained_source = missing + ": the measured devices' ratio, 0.88 to 0.90";
  }

  const job::Device& device_;
  GemmCurveFit out_;
};

}  // namespace

FitRow row_of(std::string curve, std::string size, int points, const SizeClass& c, int outliers) {
  return {std::move(curve), std::move(size), points, c.points, c.median, c.p95, outliers};
}

GemmCurveFit fit_gemm_curve(const job::Device& device, job::DType dtype,
                            const std::vector<GemmSample>& samples, const std::string& name) {
  return GemmCurveFitter(device).run(dtype, samples, name);
}

}  // namespace stepcast::cost
