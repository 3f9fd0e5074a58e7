#include "gemm_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "correction_fit.h"
#include "least_squares.h"

namespace stepcast::cost {
namespace {

constexpr int kParameters = 7;
constexpr int kMinPoints = 40;
// Points further off than this (in log time) are bounded in their pull: tables hold outliers of a
// factor of ten.
constexpr double kHuber = 0.15;

// The last parameter, quantise, is fitted only below 16 bits: a cast reads 2 bytes, writes 1, and
// may pass over its input more than once.
constexpr double kMostQuantise = 12;
// What physics allows: a kernel's start and end, and the share of the data sheet's bandwidth,
// whatever a table with few memory-bound points would prefer.
constexpr std::array<double, 2> kFixed = {1e-6, 20e-6};
constexpr std::array<double, 2> kBandwidth = {0.6, 0.98};
constexpr double kStartBandwidth = 0.85;
constexpr std::array<double, 2> kPrologue = {4, 1024};  // elements of k
constexpr std::array<double, 2> kTile = {0.5, 64};
constexpr double kLogit = 4;  // the tail stays within 2 and 98 %

double flops(const GemmPoint& p) {
  return 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) *
         static_cast<double>(p.batch);
}

GemmWork work_of(const GemmPoint& p, ElementBytes e) {
  const auto m = static_cast<double>(p.m);
  const auto n = static_cast<double>(p.n);
  const auto k = static_cast<double>(p.k);
  const auto batch = static_cast<double>(p.batch);
  return {m, n, k, batch, gemm_bytes(m, n, k, batch, e.in, e.out)};
}

// All parameters are positive: they are fitted as logarithms, the tail as a logit.
Eigen::VectorXd pack(const GemmLaw& l, int count) {
  Eigen::VectorXd x(kParameters);
  x << std::log(l.fixed), std::log(l.rate), std::log(l.bandwidth), std::log(l.prologue),
      std::log(l.tile), std::log(l.tail / (1 - l.tail)), l.quantise;
  return x.head(count);
}

GemmLaw unpack(const Eigen::VectorXd& x, const GemmLaw& like) {
  GemmLaw l = like;
  l.fixed = std::exp(x[0]);
  l.rate = std::exp(x[1]);
  l.bandwidth = std::exp(x[2]);
  l.prologue = std::exp(x[3]);
  l.tile = std::exp(x[4]);
  l.tail = 1 / (1 + std::exp(-x[5]));
  l.quantise = x.size() > 6 ? x[6] : 0;
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
  Bounds bounds;
  const int count = e.in < 2 ? kParameters : kParameters - 1;
  bounds.low.resize(kParameters);
  bounds.high.resize(kParameters);
  bounds.low << std::log(kFixed[0]), std::log(0.1 * start.rate),
      std::log(kBandwidth[0] * start.bandwidth), std::log(kPrologue[0]), std::log(kTile[0]),
      -kLogit, 0;
  bounds.high << std::log(kFixed[1]), std::log(10 * start.rate),
      std::log(kBandwidth[1] * start.bandwidth), std::log(kPrologue[1]), std::log(kTile[1]), kLogit,
      kMostQuantise;
  bounds.low.conservativeResize(count);
  bounds.high.conservativeResize(count);
  const Eigen::VectorXd x = least_squares(
      pack(like, count), bounds, kHuber,
      [&](const Eigen::VectorXd& y) { return residuals(unpack(y, like), points, e); });
  return unpack(x, like);
}

CorrectionGrid fit_grid(const GemmLaw& physics, const std::vector<GemmPoint>& points,
                        ElementBytes e) {
  std::vector<CorrectionSample> samples;
  samples.reserve(points.size());
  for (const GemmPoint& p : points) {
    const GemmWork w = work_of(p, e);
    const double before = physics.fixed + quantise_seconds(physics, w);
    const double body = gemm_seconds(physics, w) - before;
    // What the correction must explain is the part above the fixed cost.
    samples.push_back({{w.m * w.batch, w.n, w.k},
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
  c.median = off[off.size() / 2];
  c.p95 = off[std::min(off.size() - 1, off.size() * 95 / 100)];
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

bool is_held_out(const GemmPoint& p) {
  // SplitMix64's finaliser over the shape.
  std::uint64_t h = 0;
  for (const std::int64_t v : {p.m, p.n, p.k, p.batch}) {
    h += static_cast<std::uint64_t>(v) + 0x9e3779b97f4a7c15ULL;
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ULL;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebULL;
    h ^= h >> 31;
  }
  return h % 4 == 0;
}

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
  if (points.size() < kMinPoints) {
    throw std::invalid_argument(fmt::format(
        "{} points are too few for a fit: at least {} are needed", points.size(), kMinPoints));
  }
  std::vector<GemmPoint> seen;
  std::vector<GemmPoint> held;
  for (const GemmPoint& p : points) {
    (is_held_out(p) ? held : seen).push_back(p);
  }
  GemmFit fit;
  fit.held_out = errors(fit_once(seen, start, element), held, element);
  fit.law = fit_once(points, start, element);
  return fit;
}

}  // namespace stepcast::cost
