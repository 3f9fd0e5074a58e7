#include "overlap_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "gemm_fit.h"

namespace stepcast::cost {
namespace {

constexpr std::size_t kMinSamples = 4;
constexpr double kLargestCoefficient = 4;  // the largest that calibration files accept
// Least speed of a kernel, since the tables of lower/passes/slowdown.h never stop one.
constexpr double kSlowest = 0.05;
constexpr double kMinShare = 0.005;
// Timing noise of a ratio of two medians, which bounds how well the extra time of a kernel is
// known.
constexpr double kMinExtra = 0.01;

struct OverlapPoint {
  double share = 0;
  double stretch = 1;
};

double predicted(double coefficient, double share) {
  return 1 / std::max(kSlowest, 1 - coefficient * share);
}

// Least squares of the speed lost over the share taken, repeated with the weight of outliers
// limited.
double slope(const std::vector<OverlapPoint>& points) {
  double value = 1;
  for (int pass = 0; pass < 10; ++pass) {
    double top = 0;
    double bottom = 0;
    for (const OverlapPoint& p : points) {
      const double lost = 1 - 1 / std::max(1.0, p.stretch);
      const double off = std::abs(lost - value * p.share);
      const double weight = pass == 0 || off <= 0.05 ? 1 : 0.05 / off;
      top += weight * lost * p.share;
      bottom += weight * p.share * p.share;
    }
    value = std::clamp(top / bottom, 0.0, kLargestCoefficient);
  }
  return value;
}

// Predicts each point with the coefficient fitted to the others.
Coefficient cross_validated(const std::vector<OverlapPoint>& points) {
  Coefficient c;
  c.points = static_cast<int>(points.size());
  c.value = slope(points);
  std::vector<double> log_ratios;
  double square = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    std::vector<OverlapPoint> others = points;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    const double t = predicted(slope(others), points[i].share);
    const double stretch = std::max(1.0, points[i].stretch);
    log_ratios.push_back(std::log(t / stretch));
    const double extra = std::max(kMinExtra, stretch - 1);
    square += std::pow(std::min(2.0, std::abs(t - stretch) / extra), 2);
  }
  const SizeClass s = summary(log_ratios);
  c.median = s.median;
  c.p95 = s.p95;
  c.residual = std::sqrt(square / static_cast<double>(points.size()));
  return c;
}

void require_enough(std::size_t count) {
  if (count < kMinSamples) {
    throw std::invalid_argument(
        fmt::format("{} points are too few for a fit: at least {} are needed", count, kMinSamples));
  }
}

}  // namespace

Coefficient fit_overlap(const std::vector<OverlapSample>& samples, bool memory_bound, int sms) {
  std::vector<OverlapPoint> points;
  for (const OverlapSample& s : samples) {
    const double share = memory_bound ? s.memory_share : static_cast<double>(s.sms) / sms;
    if (s.memory_bound == memory_bound && share > kMinShare) {
      points.push_back({share, s.kernel_stretch});
    }
  }
  require_enough(points.size());
  return cross_validated(points);
}

Coefficient fit_collective_loss(const std::vector<OverlapSample>& samples) {
  std::vector<OverlapPoint> points;
  for (const OverlapSample& s : samples) {
    if (s.collective_stretch > 0) {
      points.push_back({1, s.collective_stretch});
    }
  }
  require_enough(points.size());
  Coefficient c = cross_validated(points);
  c.value = std::min(c.value, 0.95);
  return c;
}

}  // namespace stepcast::cost
