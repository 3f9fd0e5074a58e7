#include "attention_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <stdexcept>

#include "correction_fit.h"
#include "folds.h"
#include "least_squares.h"
#include "stepcast/base/statistics.h"

namespace stepcast::cost {
namespace {

constexpr int kMinAttentionPoints = 40;
constexpr std::size_t kMinPassPoints = 16;
constexpr std::size_t kMinRatioPoints = 4;
constexpr std::size_t kMinFullPoints = 8;  // points needed with a causal mask, and without one
constexpr double kAttentionHuber = 0.2;
constexpr double kBf16Bytes = 2;
// Reading and writing each element once takes two passes at the rate of a copy; at most ten times
// as long in small heads.
constexpr std::array<double, 2> kCachePasses = {0.2, 20};

struct Shape {
  std::set<int> dims;
  std::set<int> paged_dims;  // those of points that include writing a paged cache
  bool backward = false;
  bool full = false;  // points with and without a causal mask
};

AttentionPass unpack(const Eigen::VectorXd& x, const Shape& shape) {
  AttentionPass c;
  c.fixed = std::exp(x[0]);
  c.prologue = std::exp(x[1]);
  c.tail = 1 / (1 + std::exp(-x[2]));
  Eigen::Index i = 3;
  for (const int dim : shape.dims) {
    c.rate[dim] = std::exp(x[i++]);
  }
  if (shape.full) {
    c.full = std::exp(x[i++]);
  }
  for (const int dim : shape.paged_dims) {
    c.cache[dim] = std::exp(x[i++]);
  }
  return c;
}

std::vector<double> log_ratios(const AttentionPass& pass, bool backward, double ratio,
                               const std::vector<AttentionPoint>& points,
                               const AttentionDevice& device) {
  std::vector<double> r;
  r.reserve(points.size());
  for (const AttentionPoint& p : points) {
    const double cache = p.paged ? cache_seconds(pass, p.shape, device, kBf16Bytes) : 0;
    const double t = pass_seconds(pass, p.shape, backward, ratio, device, kBf16Bytes) + cache;
    r.push_back(std::log(t / p.seconds));
  }
  return r;
}

Shape shape_of(const std::vector<AttentionPoint>& points, bool backward, bool paged) {
  Shape shape;
  shape.backward = backward;
  for (const AttentionPoint& p : points) {
    const int dim = std::max(p.shape.qk_dim, p.shape.v_dim);
    shape.dims.insert(dim);
    if (paged && p.paged) {
      shape.paged_dims.insert(dim);
    }
  }
  // Only head dimensions that were timed with a mask and without one tell how these differ.
  for (const int dim : shape.dims) {
    const auto count = [&](bool causal) {
      return static_cast<std::size_t>(
          std::count_if(points.begin(), points.end(), [&](const AttentionPoint& p) {
            return p.shape.causal == causal && std::max(p.shape.qk_dim, p.shape.v_dim) == dim;
          }));
    };
    shape.full |= count(true) >= kMinFullPoints && count(false) >= kMinFullPoints;
  }
  return shape;
}

CorrectionGrid fit_grid(const AttentionPass& pass, bool backward,
                        const std::vector<AttentionPoint>& points, const AttentionDevice& device) {
  std::vector<CorrectionSample> samples;
  samples.reserve(points.size());
  for (const AttentionPoint& p : points) {
    const double body = pass_seconds(pass, p.shape, backward, 1, device, kBf16Bytes) - pass.fixed;
    const double cache = p.paged ? cache_seconds(pass, p.shape, device, kBf16Bytes) : 0;
    const double before = pass.fixed + cache;
    const double above = std::max(p.seconds - before, 0.2 * p.seconds);
    samples.push_back({{static_cast<double>(p.shape.sequences) * p.shape.heads,
                        static_cast<double>(p.shape.query_length),
                        static_cast<double>(std::max(p.shape.qk_dim, p.shape.v_dim))},
                       std::log(above / body)});
  }
  return fit_correction(samples, {1.0, 1.0, 1.0});
}

AttentionPass fit_once(const std::vector<AttentionPoint>& points, double rate, const Shape& shape,
                       const AttentionDevice& device) {
  const auto dims = static_cast<Eigen::Index>(shape.dims.size());
  const Eigen::Index full = 3 + dims;
  const Eigen::Index cache = full + (shape.full ? 1 : 0);
  const auto paged = static_cast<Eigen::Index>(shape.paged_dims.size());
  const Eigen::Index count = cache + paged;
  Eigen::VectorXd start = Eigen::VectorXd::Constant(count, std::log(rate));
  Bounds bounds{Eigen::VectorXd::Constant(count, std::log(0.05 * rate)),
                Eigen::VectorXd::Constant(count, std::log(10 * rate))};
  start.head(3) << std::log(10e-6), std::log(500.0), 0;
  bounds.low.head(3) << std::log(1e-6), std::log(10.0), -4;
  bounds.high.head(3) << std::log(50e-6), std::log(4000.0), 4;
  if (shape.full) {
    start[full] = 0;
    bounds.low[full] = std::log(0.5);
    bounds.high[full] = std::log(2.0);
  }
  start.tail(paged).setConstant(std::log(3.0));
  bounds.low.tail(paged).setConstant(std::log(kCachePasses[0]));
  bounds.high.tail(paged).setConstant(std::log(kCachePasses[1]));
  const Eigen::VectorXd x = least_squares(
      start, bounds, kAttentionHuber, [&](const Eigen::VectorXd& y) -> Eigen::VectorXd {
        const std::vector<double> r =
            log_ratios(unpack(y, shape), shape.backward, 1, points, device);
        return Eigen::Map<const Eigen::VectorXd>(r.data(), static_cast<Eigen::Index>(r.size()));
      });
  AttentionPass pass = unpack(x, shape);
  if (points.size() >= kMinAttentionPoints * (kFolds - 1) / kFolds) {
    pass.grid = fit_grid(pass, shape.backward, points, device);
  }
  return pass;
}

bool is_held_out(const AttentionPoint& p) {
  return is_held_out(GemmPoint{p.shape.query_length * p.shape.qk_dim, p.shape.heads,
                               p.shape.kv_heads, p.shape.sequences, p.seconds});
}

int fold(const AttentionPoint& p) {
  return fold_of({p.shape.query_length, p.shape.qk_dim, p.shape.heads, p.shape.kv_heads,
                  p.shape.sequences, p.shape.causal ? 1 : 0});
}

struct Split {
  std::vector<AttentionPoint> seen, held;
};

Split split(const std::vector<AttentionPoint>& points, int held_fold) {
  Split s;
  for (const AttentionPoint& p : points) {
    (fold(p) == held_fold ? s.held : s.seen).push_back(p);
  }
  return s;
}

// The ratio of the rates at which the median error is zero.
double fit_ratio(const AttentionPass& forward, const std::vector<AttentionPoint>& points,
                 const AttentionDevice& device) {
  double low = std::log(0.05);
  double high = std::log(2.0);
  for (int i = 0; i < 40; ++i) {
    const double middle = (low + high) / 2;
    const double ratio = upper_median(log_ratios(forward, true, std::exp(middle), points, device));
    // Where predictions are too slow, the rate has to rise.
    (ratio > 0 ? low : high) = middle;
  }
  return std::exp((low + high) / 2);
}

}  // namespace

SizeClass errors(const AttentionCurve& curve, const std::vector<AttentionPoint>& points,
                 const AttentionDevice& device) {
  return summary(log_ratios(curve, false, 1, points, device));
}

AttentionFit fit_attention(const std::vector<AttentionPoint>& points, double rate,
                           const AttentionDevice& device, bool paged) {
  if (points.size() < kMinAttentionPoints) {
    throw std::invalid_argument(
        fmt::format("{} points are too few for a fit: at least {} are needed", points.size(),
                    kMinAttentionPoints));
  }
  std::vector<AttentionPoint> seen;
  std::vector<AttentionPoint> held;
  for (const AttentionPoint& p : points) {
    (is_held_out(p) ? held : seen).push_back(p);
  }
  const Shape shape = shape_of(points, false, paged);
  AttentionFit fit;
  fit.held_out = summary(log_ratios(fit_once(seen, rate, shape, device), false, 1, held, device));
  static_cast<AttentionPass&>(fit.curve) = fit_once(points, rate, shape, device);
  fit.curve.residual = fit.held_out.deviation;
  return fit;
}

PassFit fit_pass(const std::vector<AttentionPoint>& points, bool backward, double rate,
                 const AttentionDevice& device, bool paged) {
  if (points.size() < kMinPassPoints) {
    throw std::invalid_argument(fmt::format(
        "{} points are too few for a fit: at least {} are needed", points.size(), kMinPassPoints));
  }
  const auto [low, high] = std::minmax_element(
      points.begin(), points.end(), [](const AttentionPoint& a, const AttentionPoint& b) {
        return attention_flops(a.shape, false) < attention_flops(b.shape, false);
      });
  if (attention_flops(high->shape, false) < kMinSpan * attention_flops(low->shape, false)) {
    throw std::invalid_argument(fmt::format(
        "all points are of nearly one size: their FLOPs must span a factor of {:g}", kMinSpan));
  }
  const Shape shape = shape_of(points, backward, paged);
  PassFit fit;
  std::vector<double> unseen;
  for (int f = 0; f < kFolds; ++f) {
    const Split s = split(points, f);
    if (s.held.empty() || s.seen.empty()) {
      continue;
    }
    const auto r = log_ratios(fit_once(s.seen, rate, shape, device), backward, 1, s.held, device);
    unseen.insert(unseen.end(), r.begin(), r.end());
  }
  fit.held_out = summary(unseen);
  fit.pass = fit_once(points, rate, shape, device);
  fit.pass.residual = fit.held_out.deviation;
  fit.outliers = count_outliers(log_ratios(fit.pass, backward, 1, points, device));
  return fit;
}

BackwardFit fit_backward(const AttentionPass& forward, const std::vector<AttentionPoint>& points,
                         const AttentionDevice& device) {
  if (points.size() < kMinRatioPoints) {
    throw std::invalid_argument(fmt::format(
        "{} points are too few for a fit: at least {} are needed", points.size(), kMinRatioPoints));
  }
  BackwardFit fit;
  fit.ratio = fit_ratio(forward, points, device);
  std::vector<double> unseen;
  for (int f = 0; f < kFolds; ++f) {
    const Split s = split(points, f);
    if (s.held.empty() || s.seen.empty()) {
      continue;
    }
    const auto r = log_ratios(forward, true, fit_ratio(forward, s.seen, device), s.held, device);
    unseen.insert(unseen.end(), r.begin(), r.end());
  }
  fit.ratio_held_out = summary(unseen);
  try {
    fit.own = fit_pass(points, true, fit.ratio * forward.rate.rbegin()->second, device);
    fit.own_is_better = fit.own->held_out.median < fit.ratio_held_out.median;
  } catch (const std::invalid_argument&) {
    // The points are too few: only the ratio is used.
  }
  return fit;
}

}  // namespace stepcast::cost
