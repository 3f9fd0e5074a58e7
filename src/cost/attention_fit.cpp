#include "attention_fit.h"

#include <fmt/format.h>

#include <cmath>
#include <set>
#include <stdexcept>

#include "correction_fit.h"
#include "least_squares.h"

namespace stepcast::cost {
namespace {

constexpr int kMinPoints = 40;
constexpr double kHuber = 0.2;
constexpr double kBf16Bytes = 2;

AttentionCurve unpack(const Eigen::VectorXd& x, const std::set<int>& dims) {
  AttentionCurve c;
  c.fixed = std::exp(x[0]);
  c.prologue = std::exp(x[1]);
  c.tail = 1 / (1 + std::exp(-x[2]));
  Eigen::Index i = 3;
  for (const int dim : dims) {
    c.rate[dim] = std::exp(x[i++]);
  }
  return c;
}

std::vector<double> log_ratios(const AttentionCurve& curve,
                               const std::vector<AttentionPoint>& points,
                               const AttentionDevice& device) {
  std::vector<double> r;
  r.reserve(points.size());
  for (const AttentionPoint& p : points) {
    r.push_back(std::log(attention_seconds(curve, p.shape, false, device, kBf16Bytes) / p.seconds));
  }
  return r;
}

AttentionCurve fit_once(const std::vector<AttentionPoint>& points, double rate,
                        const AttentionDevice& device) {
  std::set<int> dims;
  for (const AttentionPoint& p : points) {
    dims.insert(p.shape.qk_dim);
  }
  const auto count = static_cast<Eigen::Index>(3 + dims.size());
  Eigen::VectorXd start = Eigen::VectorXd::Constant(count, std::log(rate));
  Bounds bounds{Eigen::VectorXd::Constant(count, std::log(0.05 * rate)),
                Eigen::VectorXd::Constant(count, std::log(10 * rate))};
  start.head(3) << std::log(10e-6), std::log(500.0), 0;
  bounds.low.head(3) << std::log(1e-6), std::log(10.0), -4;
  bounds.high.head(3) << std::log(50e-6), std::log(4000.0), 4;
  const Eigen::VectorXd x =
      least_squares(start, bounds, kHuber, [&](const Eigen::VectorXd& y) -> Eigen::VectorXd {
        const std::vector<double> r = log_ratios(unpack(y, dims), points, device);
        return Eigen::Map<const Eigen::VectorXd>(r.data(), static_cast<Eigen::Index>(r.size()));
      });
  AttentionCurve curve = unpack(x, dims);
  std::vector<CorrectionSample> samples;
  samples.reserve(points.size());
  for (const AttentionPoint& p : points) {
    const double body = attention_seconds(curve, p.shape, false, device, kBf16Bytes) - curve.fixed;
    const double above = std::max(p.seconds - curve.fixed, 0.2 * p.seconds);
    samples.push_back(
        {{static_cast<double>(p.shape.sequences) * p.shape.heads,
          static_cast<double>(p.shape.query_length), static_cast<double>(p.shape.qk_dim)},
         std::log(above / body)});
  }
  curve.grid = fit_correction(samples, {1.0, 1.0, 1.0});
  return curve;
}

bool is_held_out(const AttentionPoint& p) {
  return is_held_out(GemmPoint{p.shape.query_length * p.shape.qk_dim, p.shape.heads,
                               p.shape.kv_heads, p.shape.sequences, p.seconds});
}

}  // namespace

SizeClass errors(const AttentionCurve& curve, const std::vector<AttentionPoint>& points,
                 const AttentionDevice& device) {
  return summary(log_ratios(curve, points, device));
}

AttentionFit fit_attention(const std::vector<AttentionPoint>& points, double rate,
                           const AttentionDevice& device) {
  if (points.size() < kMinPoints) {
    throw std::invalid_argument(fmt::format(
        "{} points are too few for a fit: at least {} are needed", points.size(), kMinPoints));
  }
  std::vector<AttentionPoint> seen;
  std::vector<AttentionPoint> held;
  for (const AttentionPoint& p : points) {
    (is_held_out(p) ? held : seen).push_back(p);
  }
  AttentionFit fit;
  fit.held_out = errors(fit_once(seen, rate, device), held, device);
  fit.curve = fit_once(points, rate, device);
  fit.curve.residual = fit.held_out.deviation;
  return fit;
}

}  // namespace stepcast::cost
