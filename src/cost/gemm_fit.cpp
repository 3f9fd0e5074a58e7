#include "gemm_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <stdexcept>

#include "correction_fit.h"
#include "folds.h"
#include "least_squares.h"
#include "stepcast/base/statistics.h"

namespace stepcast::cost {
namespace {

constexpr int kCommon = 6;  // parameters that every law has
constexpr int kMinGemmPoints = 40;
// Huber's threshold in log time: tables have outliers of a factor of ten.
constexpr double kGemmHuber = 0.15;

// Quantise is fitted only below 16 bits (else its bounds coincide): a cast reads 2 bytes, writes 1,
// and may pass over its input more than once.
constexpr double kMaxQuantise = 12;
// Physical bounds of a kernel's fixed time and of the share of the data sheet's bandwidth,
// which a table with few memory-bound points does not determine.
constexpr std::array<double, 2> kFixed = {1e-6, 20e-6};
// Largest fixed time, as a share of the shortest times (1st percentile).
constexpr double kFixedShare = 0.85;
constexpr std::array<double, 2> kBandwidth = {0.6, 0.98};
constexpr double kStartBandwidth = 0.85;
constexpr std::array<double, 2> kPrologue = {4, 1024};  // elements of k
constexpr std::array<double, 2> kTileLimits = {0.5, 64};
constexpr double kLogit = 4;  // bound of the logit: the tail stays within 2 and 98 %
// Bandwidth of L2 over HBM: no device here reads L2 more than twelve times as fast.
constexpr double kMaxL2 = 12;
constexpr double kMinL2 = 1.05;

double flops(const GemmPoint& p) {
  return 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) *
         static_cast<double>(p.batch);
}

GemmWork work_of(const GemmPoint& p, ElementBytes e) {
  const auto m = static_cast<double>(p.m);
  const auto n = static_cast<double>(p.n);
  const auto k = static_cast<double>(p.k);
  const auto batch = static_cast<double>(p.batch);
  return {m, n, k, batch, gemm_bytes(m, n, k, batch, e.in, e.out), true};
}

// Parameters beyond the common ones that a table determines.
struct Fitted {
  bool quantise = false;
  bool l2 = false;
  int count() const { return kCommon + (quantise ? 1 : 0) + (l2 ? 1 : 0); }
};

// Parameters are positive and are fitted as logarithms, the tail as a logit.
Eigen::VectorXd pack(const GemmLaw& l, Fitted f) {
  Eigen::VectorXd x(f.count());
  x.head(kCommon) << std::log(l.fixed), std::log(l.rate), std::log(l.bandwidth),
      std::log(l.prologue), std::log(l.tile), std::log(l.tail / (1 - l.tail));
  if (f.quantise) {
    x[kCommon] = l.quantise;
  }
  if (f.l2) {
    x[x.size() - 1] = std::log(l.l2_bandwidth / l.bandwidth);
  }
  return x;
}

GemmLaw unpack(const Eigen::VectorXd& x, const GemmLaw& like, Fitted f) {
  GemmLaw l = like;
  l.fixed = std::exp(x[0]);
  l.rate = std::exp(x[1]);
  l.bandwidth = std::exp(x[2]);
  l.prologue = std::exp(x[3]);
  l.tile = std::exp(x[4]);
  l.tail = 1 / (1 + std::exp(-x[5]));
  l.quantise = f.quantise ? x[kCommon] : 0;
  l.l2_bandwidth = f.l2 ? l.bandwidth * std::exp(x[x.size() - 1]) : 0;
  return l;
}

Eigen::VectorXd residuals(const GemmLaw& law, const std::vector<GemmPoint>& points,
                          ElementBytes e) {
  Eigen::VectorXd r(static_cast<Eigen::Index>(points.size()));
  for (std::size_t i = 0; i < points.size(); ++i) {
    r[static_cast<Eigen::Index>(i)] =
        std::log(gemm_seconds(law, work_of(points[i], e)) / points[i].seconds);
  }
  return r;
}

GemmLaw fit_physics(const std::vector<GemmPoint>& points, const GemmLaw& start, ElementBytes e) {
  GemmLaw like = start;
  like.grid = {};
  like.bandwidth = kStartBandwidth * start.bandwidth;
  like.l2_bandwidth = 3 * like.bandwidth;
  const Fitted fitted{e.in<2, start.resident> 0};
  Bounds bounds;
  bounds.low = Eigen::VectorXd::Zero(fitted.count());
  bounds.high = Eigen::VectorXd::Zero(fitted.count());
  bounds.low.head(kCommon) << std::log(kFixed[0]), std::log(0.1 * start.rate),
      std::log(kBandwidth[0] * start.bandwidth), std::log(kPrologue[0]), std::log(kTileLimits[0]),
      -kLogit;
  // If the fixed time exceeded the table's shortest times, no correction of the rest could reach
  // those points.
  std::vector<double> times;
  for (const GemmPoint& p : points) {
    times.push_back(p.seconds);
  }
  const auto shortest = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 100);
  std::nth_element(times.begin(), shortest, times.end());
  const double most_fixed = std::clamp(kFixedShare * *shortest, kFixed[0], kFixed[1]);
  bounds.high.head(kCommon) << std::log(most_fixed), std::log(10 * start.rate),
      std::log(kBandwidth[1] * start.bandwidth), std::log(kPrologue[1]), std::log(kTileLimits[1]),
      kLogit;
  if (fitted.quantise) {
    bounds.high[kCommon] = kMaxQuantise;
  }
  if (fitted.l2) {
    bounds.high[fitted.count() - 1] = std::log(kMaxL2);
  }
  const Eigen::VectorXd x = least_squares(
      pack(like, fitted), bounds, kGemmHuber,
      [&](const Eigen::VectorXd& y) { return residuals(unpack(y, like, fitted), points, e); });
  GemmLaw law = unpack(x, like, fitted);
  if (law.l2_bandwidth < kMinL2 * law.bandwidth) {
    law.resident = law.l2_bandwidth = 0;  // this table shows no effect of L2
  }
  return law;
}

CorrectionGrid fit_grid(const GemmLaw& physics, const std::vector<GemmPoint>& points,
                        ElementBytes e) {
  std::vector<CorrectionSample> samples;
  samples.reserve(points.size());
  for (const GemmPoint& p : points) {
    const GemmWork w = work_of(p, e);
    const double before = physics.fixed + quantise_seconds(physics, w);
    const double body = gemm_seconds(physics, w) - before;
    // The correction applies to the part of the time above the fixed cost.
    samples.push_back({{grid_rows(w.m * w.batch), w.n, w.k},
                       std::log(std::max(p.seconds - before, 0.2 * p.seconds) / body)});
  }
  return fit_correction(samples, {1.0, 0.5, 0.5});
}

GemmLaw fit_once(const std::vector<GemmPoint>& points, const GemmLaw& start, ElementBytes e) {
  GemmLaw law = fit_physics(points, start, e);
  law.grid = fit_grid(law, points, e);
  return law;
}

}  // namespace

SizeClass summary(std::vector<double> log_ratios) {
  SizeClass c;
  c.points = static_cast<int>(log_ratios.size());
  if (log_ratios.empty()) {
    return c;
  }
  std::vector<double> off;
  for (const double r : log_ratios) {
    off.push_back(std::abs(std::exp(r) - 1));
  }
  std::sort(off.begin(), off.end());
  c.median = upper_percentile(off, 50);
  c.p95 = upper_percentile(off, 95);
  std::sort(log_ratios.begin(), log_ratios.end());
  const std::size_t cut = log_ratios.size() / 100;
  double sum = 0;
  double square = 0;
  for (std::size_t i = cut; i + cut < log_ratios.size(); ++i) {
    sum += log_ratios[i];
    square += log_ratios[i] * log_ratios[i];
  }
  const auto count = static_cast<double>(log_ratios.size() - 2 * cut);
  c.deviation = std::sqrt(std::max(0.0, square / count - sum / count * (sum / count)));
  return c;
}

bool is_held_out(const GemmPoint& p) { return shape_hash({p.m, p.n, p.k, p.batch}) % 4 == 0; }
bool is_weight_held_out(const GemmPoint& p) { return shape_hash({p.n, p.k}) % 4 == 0; }

SizeClasses errors(const GemmLaw& law, const std::vector<GemmPoint>& points, ElementBytes element) {
  std::array<std::vector<double>, 5> ratios;
  for (const GemmPoint& p : points) {
    const double r = std::log(gemm_seconds(law, work_of(p, element)) / p.seconds);
    const double gflop = flops(p) * 1e-9;
    const int size = gflop < 1 ? 0 : gflop < 10 ? 1 : gflop < 100 ? 2 : 3;
    ratios[size].push_back(r);
    if (size > 0) {
      ratios[4].push_back(r);
    }
  }
  SizeClasses out;
  for (int i = 0; i < 5; ++i) {
    out[i] = summary(ratios[i]);
  }
  return out;
}

GemmFit fit_gemm(const std::vector<GemmPoint>& points, const GemmLaw& start, ElementBytes element) {
  if (points.size() < kMinGemmPoints) {
    throw std::invalid_argument(fmt::format(
        "{} points are too few for a fit: at least {} are needed", points.size(), kMinGemmPoints));
  }
  const auto without = [&](bool (*held_out)(const GemmPoint&)) {
    std::vector<GemmPoint> seen;
    std::vector<GemmPoint> held;
    for (const GemmPoint& p : points) {
      (held_out(p) ? held : seen).push_back(p);
    }
    return errors(fit_once(seen, start, element), held, element);
  };
  GemmFit fit;
  fit.held_out = without(is_held_out);
  fit.held_out_weights = without(is_weight_held_out);
  fit.law = fit_once(points, start, element);
  return fit;
}

}  // namespace stepcast::cost
