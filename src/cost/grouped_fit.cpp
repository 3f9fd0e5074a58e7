#include "grouped_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "least_squares.h"

namespace stepcast::cost {
namespace {

constexpr std::size_t kMinExpertPoints = 40;
constexpr double kExpertHuber = 0.2;  // of ln(time): layers run one of several kernels
// Weight of the difference between neighbouring nodes, relative to one point.
constexpr double kExpertSmoothness = 0.5;
constexpr double kMinFixedSeconds = 2e-6;
constexpr double kMaxFixedSeconds =
    100e-6;  // seconds: routing, sorting and gathering launch further kernels
constexpr double kMaxGather = 20;
constexpr double kMaxFactor = 20;

double rows_of(const ExpertLayer& l) {
  return std::max(1.0, static_cast<double>(l.tokens) * l.topk / l.experts);
}

// ln(fixed), ln(gather), then ln(factor) of every node.
GroupedCurve unpack(const Eigen::VectorXd& x, double first) {
  GroupedCurve c;
  c.first = first;
  c.fixed = std::exp(x[0]);
  c.gather = std::exp(x[1]);
  for (Eigen::Index i = 2; i < x.size(); ++i) {
    c.factor.push_back(std::exp(x[i]));
  }
  return c;
}

GroupedCurve fit_once(const std::vector<ExpertPoint>& points, const GemmLaw& over, ElementBytes e) {
  double low = 1e9;
  double high = 0;
  for (const ExpertPoint& p : points) {
    low = std::min(low, rows_of(p.layer));
    high = std::max(high, rows_of(p.layer));
  }
  const double first = std::floor(std::log2(low));
  const auto nodes = static_cast<Eigen::Index>(std::ceil(std::log2(high) - first)) + 1;
  Eigen::VectorXd start = Eigen::VectorXd::Zero(nodes + 2);
  start[0] = std::log(20e-6);
  Bounds bounds;
  bounds.low = Eigen::VectorXd::Constant(nodes + 2, -std::log(kMaxFactor));
  bounds.high = Eigen::VectorXd::Constant(nodes + 2, std::log(kMaxFactor));
  bounds.low[0] = std::log(kMinFixedSeconds);
  bounds.high[0] = std::log(kMaxFixedSeconds);
  bounds.low[1] = std::log(1e-3);
  bounds.high[1] = std::log(kMaxGather);
  const auto count = static_cast<Eigen::Index>(points.size());
  const Eigen::VectorXd x =
      least_squares(start, bounds, kExpertHuber, [&](const Eigen::VectorXd& y) {
        const GroupedCurve c = unpack(y, first);
        Eigen::VectorXd r(count + nodes - 1);
        for (Eigen::Index i = 0; i < count; ++i) {
          const ExpertPoint& p = points[static_cast<std::size_t>(i)];
          r[i] = std::log(expert_layer_seconds(c, over, p.layer, e.in, e.out) / p.seconds);
        }
        for (Eigen::Index i = 0; i + 1 < nodes; ++i) {
          r[count + i] = kExpertSmoothness * (y[i + 3] - y[i + 2]);
        }
        return r;
      });
  return unpack(x, first);
}

// A layer is held out at all its lengths, so that the fit sees none of them.
bool is_held_out(const ExpertPoint& p) {
  const ExpertLayer& l = p.layer;
  return is_held_out(
      GemmPoint{l.hidden, l.inter, l.topk * 4096 + l.experts, l.tensor * 4096 + l.parallel, 0});
}

}  // namespace

GroupedFit fit_grouped(const std::vector<ExpertPoint>& points, const GemmLaw& over,
                       ElementBytes element) {
  if (points.size() < kMinExpertPoints) {
    throw std::invalid_argument(
        fmt::format("{} points are too few for a fit: at least {} are needed", points.size(),
                    kMinExpertPoints));
  }
  std::vector<ExpertPoint> seen;
  std::vector<double> ratios;
  for (const ExpertPoint& p : points) {
    if (!is_held_out(p)) {
      seen.push_back(p);
    }
  }
  const GroupedCurve judged = fit_once(seen, over, element);
  for (const ExpertPoint& p : points) {
    if (is_held_out(p)) {
      ratios.push_back(std::log(
          expert_layer_seconds(judged, over, p.layer, element.in, element.out) / p.seconds));
    }
  }
  GroupedFit fit;
  fit.curve = fit_once(points, over, element);
  fit.held_out = summary(std::move(ratios));
  fit.curve.residual = fit.held_out.deviation;
  return fit;
}

}  // namespace stepcast::cost
