#include "fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

#include "stepcast/base/statistics.h"

namespace stepcast::cost {
namespace {

constexpr double kNoise = 0.06;  // log2 units: usual scatter of one point
constexpr double kHuber = 2.0;   // in units of kNoise

using Matrix = Eigen::Matrix<double, kParameters, kParameters>;
using Vector = Eigen::Matrix<double, kParameters, 1>;

// Large messages approach a bandwidth: where latency no longer matters the prior of the slope
// narrows, so that sizes beyond those measured keep the share of the largest one measured.
double flatter(double x) {
  constexpr double kFrom = 4;
  constexpr double kHalves = 1;
  return x <= kFrom ? 1 : std::exp2((kFrom - x) / kHalves);
}

Matrix precision(const Prior& prior) {
  Matrix a = Matrix::Zero();
  const auto add = [&](const Vector& row, double sigma) {
    a += row * row.transpose() / (sigma * sigma);
  };
  Vector row = Vector::Zero();
  row[0] = 1;
  add(row, prior.latency);
  for (int k = 1; k < kParameters; ++k) {
    row.setZero();
    row[k] = 1;
    add(row, prior.share);
    if (k + 1 < kParameters) {
      row.setZero();
      row[k] = -1;
      row[k + 1] = 1;
      add(row, prior.slope * flatter(kFirst + kStep * (k - 0.5)));
    }
    if (k + 2 < kParameters) {
      row.setZero();
      row[k] = 1;
      row[k + 1] = -2;
      row[k + 2] = 1;
      add(row, prior.bend);
    }
  }
  return a;
}

Fit raw(const Shift& base, const Vector& x, double reach) {
  Fit fit;
  fit.latency = std::exp2(base[0] + reach * x[0]);
  for (std::size_t k = 0; k < kKnots; ++k) {
    fit.log2_share[k] = base[k + 1] + reach * x[static_cast<Eigen::Index>(k) + 1];
  }
  return fit;
}

}  // namespace

Fit fit_of(const Shift& shift) {
  Fit fit = raw(shift, Vector::Zero(), 0);
  // From large sizes, where bandwidth is measured, to small ones: the slope to the next knot is at
  // most kSteepest.
  for (int k = kKnots - 2; k >= 0; --k) {
    auto& here = fit.log2_share[static_cast<std::size_t>(k)];
    here = std::max(here, fit.log2_share[static_cast<std::size_t>(k) + 1] - kSteepest * kStep);
  }
  return fit;
}

double knot_position(const Offer& offer, double bytes) { return std::log2(bytes / offer.axis()); }

Shift fit_shift(const std::vector<Seen>& seen, const Prior& prior) {
  Vector x = Vector::Zero();
  // Large messages alone do not determine the latency.
  constexpr double kUnseen = 0.1;
  const bool latency_seen = std::any_of(seen.begin(), seen.end(), [](const Seen& s) {
    return knot_position(s.point->offer, s.point->bytes) < 0;
  });
  Prior known = prior;
  known.latency = latency_seen ? prior.latency : std::min(prior.latency, kUnseen);
  const Matrix tight = precision(known);
  constexpr int kRounds = 12;
  for (int round = 0; round < kRounds; ++round) {
    Matrix a = tight;
    Vector b = -tight * x;
    for (const Seen& s : seen) {
      const Point& p = *s.point;
      const Predicted t = predict(p.offer, raw(*s.base, x, s.reach), p.bytes);
      const double error = std::log2(t.total() / p.seconds);
      const double scaled = std::abs(error) * std::sqrt(s.weight) / kNoise;
      const double weight =
          s.weight * (scaled <= kHuber ? 1.0 : kHuber / scaled) / (kNoise * kNoise);
      const KnotWeight w = knot_weight(knot_position(p.offer, p.bytes));
      // Only three entries of the gradient are not zero.
      const int at[3] = {0, w.low + 1, w.low + 2};
      const double g[3] = {s.reach * t.latency / t.total(),
                           -s.reach * (1 - w.high) * t.fluid / t.total(),
                           -s.reach * w.high * t.fluid / t.total()};
      for (int i = 0; i < 3; ++i) {
        b[at[i]] -= weight * g[i] * error;
        for (int j = 0; j < 3; ++j) {
          a(at[i], at[j]) += weight * g[i] * g[j];
        }
      }
    }
    const Vector step = a.ldlt().solve(b);
    x += (round < 3 ? 0.7 : 1.0) * step;
    if (step.norm() < 1e-4) {
      break;
    }
  }
  Shift shift;
  for (int k = 0; k < kParameters; ++k) {
    shift[static_cast<std::size_t>(k)] = x[k];
  }
  return shift;
}

NcclDeviations deviations(const std::vector<const Point*>& points,
                          const std::vector<double>& predicted) {
  std::vector<double> ratios[2];
  for (std::size_t i = 0; i < points.size(); ++i) {
    ratios[points[i]->bytes < 1048576 ? 0 : 1].push_back(predicted[i] / points[i]->seconds);
  }
  const auto sum_up = [](std::vector<double>& r) {
    NcclDeviation d;
    d.points = static_cast<int>(r.size());
    if (r.empty()) {
      return d;
    }
    std::sort(r.begin(), r.end());
    d.bias = upper_percentile(r, 50) - 1;
    std::vector<double> off;
    double squares = 0;
    for (const double v : r) {
      off.push_back(std::abs(v - 1));
      squares += std::log(v) * std::log(v);
    }
    std::sort(off.begin(), off.end());
    d.median = upper_percentile(off, 50);
    d.p90 = upper_percentile(off, 90);
    d.worst = off.back();
    d.spread = std::sqrt(squares / static_cast<double>(r.size()));
    return d;
  };
  return {sum_up(ratios[0]), sum_up(ratios[1])};
}

}  // namespace stepcast::cost
