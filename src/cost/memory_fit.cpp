#include "memory_fit.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "least_squares.h"

namespace stepcast::cost {
namespace {

constexpr int kMinPoints = 20;
constexpr double kHuber = 0.1;

std::vector<double> log_ratios(double fixed, double rate, const std::vector<MemoryPoint>& points) {
  std::vector<double> r;
  r.reserve(points.size());
  for (const MemoryPoint& p : points) {
    r.push_back(std::log((fixed + p.bytes / rate) / p.seconds));
  }
  return r;
}

MemoryCurve fit_once(const std::vector<MemoryPoint>& points, double bandwidth) {
  Eigen::VectorXd start = Eigen::VectorXd::Zero(2);
  Bounds bounds{start, start};
  start << std::log(3e-6), std::log(0.7 * bandwidth);
  bounds.low << std::log(1e-6), std::log(0.02 * bandwidth);
  bounds.high << std::log(30e-6), std::log(bandwidth);
  const Eigen::VectorXd x =
      least_squares(start, bounds, kHuber, [&](const Eigen::VectorXd& y) -> Eigen::VectorXd {
        const std::vector<double> r = log_ratios(std::exp(y[0]), std::exp(y[1]), points);
        return Eigen::Map<const Eigen::VectorXd>(r.data(), static_cast<Eigen::Index>(r.size()));
      });
  MemoryCurve c;
  c.fixed = std::exp(x[0]);
  c.share = std::exp(x[1]) / bandwidth;
  return c;
}

bool is_held_out(const MemoryPoint& p) {
  return is_held_out(GemmPoint{static_cast<std::int64_t>(p.bytes), 1, 1, 1, p.seconds});
}

}  // namespace

MemoryFit fit_memory(const std::vector<MemoryPoint>& points, double bandwidth) {
  if (points.size() < kMinPoints) {
    throw std::invalid_argument(fmt::format(
        "{} points are too few for a fit: at least {} are needed", points.size(), kMinPoints));
  }
  std::vector<MemoryPoint> seen;
  std::vector<MemoryPoint> held;
  for (const MemoryPoint& p : points) {
    (is_held_out(p) ? held : seen).push_back(p);
  }
  MemoryFit fit;
  const MemoryCurve blind = fit_once(seen, bandwidth);
  fit.held_out = summary(log_ratios(blind.fixed, blind.share * bandwidth, held));
  fit.curve = fit_once(points, bandwidth);
  fit.curve.residual = fit.held_out.deviation;
  return fit;
}

}  // namespace stepcast::cost
