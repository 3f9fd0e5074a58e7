#include "fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <set>

namespace stepcast::cost {
namespace {

constexpr int kParameters = kKnots + 1;  // log2 f, then knots
constexpr double kNoise = 0.06;          // log2 units: usual scatter of one point
constexpr double kHuber = 2.0;           // in kNoise
constexpr double kBend = 0.35;           // expected second difference of knots, log2 units
constexpr double kSlope = 0.6;           // expected first difference
constexpr double kWide = 1.0;            // expected size of a knot itself
constexpr double kLatencyWide = 1.0;     // expected |log2 f|
constexpr double kLatencyUnseen = 0.15;  // the same where no point is small enough to show latency

void cut_slopes(Fit& fit) {
  // From the large end, where bandwidth is measured, downwards: a knot may lie at most so far below
  // the next.
  for (int k = kKnots - 2; k >= 0; --k) {
    auto& here = fit.log2_share[static_cast<std::size_t>(k)];
    here = std::max(here, fit.log2_share[static_cast<std::size_t>(k) + 1] - kSteepest * kStep);
  }
}

}  // namespace

Fit fit_points(const std::vector<Point>& points) {
  Fit fit;
  using Matrix = Eigen::Matrix<double, kParameters, kParameters>;
  using Vector = Eigen::Matrix<double, kParameters, 1>;
  Vector x = Vector::Zero();
  const bool latency_seen = std::any_of(points.begin(), points.end(), [](const Point& p) {
    return p.bytes < p.offer.best_bandwidth * p.offer.least_latency;
  });
  for (int round = 0; round < 40; ++round) {
    Matrix a = Matrix::Zero();
    Vector b = Vector::Zero();
    const auto prior = [&](const Vector& row, double sigma) {
      a += row * row.transpose() / (sigma * sigma);
      b -= row * row.dot(x) / (sigma * sigma);
    };
    Vector row = Vector::Zero();
    row[0] = 1;
    prior(row, latency_seen ? kLatencyWide : kLatencyUnseen);
    for (int k = 0; k < kKnots; ++k) {
      row.setZero();
      row[k + 1] = 1;
      prior(row, kWide);
      if (k + 1 < kKnots) {
        row.setZero();
        row[k + 1] = -1;
        row[k + 2] = 1;
        prior(row, kSlope);
      }
      if (k + 2 < kKnots) {
        row.setZero();
        row[k + 1] = 1;
        row[k + 2] = -2;
        row[k + 3] = 1;
        prior(row, kBend);
      }
    }
    for (const Point& p : points) {
      const Predicted t = predict(p.offer, fit, p.bytes);
      const double error = std::log2(t.total() / p.seconds);
      const double scaled = std::abs(error) / kNoise;
      const double weight = (scaled <= kHuber ? 1.0 : kHuber / scaled) / (kNoise * kNoise);
      const KnotWeight w = knot_weight(
          std::log2(p.bytes / (p.offer.best_bandwidth * std::max(p.offer.least_latency, 1e-9))));
      row.setZero();
      row[0] = t.latency / t.total();
      row[w.low + 1] = -(1 - w.high) * t.fluid / t.total();
      row[w.low + 2] = -w.high * t.fluid / t.total();
      a += weight * row * row.transpose();
      b -= weight * row * error;
    }
    const Vector step = a.ldlt().solve(b);
    const double damp = round < 5 ? 0.5 : 1.0;
    x += damp * step;
    fit.latency = std::exp2(x[0]);
    for (int k = 0; k < kKnots; ++k) {
      fit.log2_share[static_cast<std::size_t>(k)] = x[k + 1];
    }
    cut_slopes(fit);
    for (int k = 0; k < kKnots; ++k) {
      x[k + 1] = fit.log2_share[static_cast<std::size_t>(k)];
    }
    if (step.norm() < 1e-7) {
      break;
    }
  }
  return fit;
}

NcclDeviations deviations(const std::vector<Point>& points, const std::vector<double>& predicted) {
  std::vector<double> ratios[2];
  for (std::size_t i = 0; i < points.size(); ++i) {
    ratios[points[i].bytes < 1048576 ? 0 : 1].push_back(predicted[i] / points[i].seconds);
  }
  const auto sum_up = [](std::vector<double>& r) {
    NcclDeviation d;
    d.points = static_cast<int>(r.size());
    if (r.empty()) {
      return d;
    }
    std::sort(r.begin(), r.end());
    d.bias = r[r.size() / 2] - 1;
    std::vector<double> off;
    double squares = 0;
    for (const double v : r) {
      off.push_back(std::abs(v - 1));
      squares += std::log(v) * std::log(v);
    }
    std::sort(off.begin(), off.end());
    d.median = off[off.size() / 2];
    d.p90 = off[off.size() * 9 / 10];
    d.worst = off.back();
    d.spread = std::sqrt(squares / static_cast<double>(r.size()));
    return d;
  };
  return {sum_up(ratios[0]), sum_up(ratios[1])};
}

std::vector<double> held_out(const std::vector<Point>& points) {
  std::set<int> logs;
  for (const Point& p : points) {
    logs.insert(p.log);
  }
  const bool by_log = logs.size() > 1;
  std::vector<int> fold(points.size());
  std::set<int> folds;
  for (std::size_t i = 0; i < points.size(); ++i) {
    fold[i] = by_log ? points[i].log : static_cast<int>(i % 4);
    folds.insert(fold[i]);
  }
  std::vector<double> predicted(points.size());
  for (const int out : folds) {
    std::vector<Point> rest;
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (fold[i] != out) {
        rest.push_back(points[i]);
      }
    }
    const Fit fit = fit_points(rest);
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (fold[i] == out) {
        predicted[i] = predict(points[i].offer, fit, points[i].bytes).total();
      }
    }
  }
  return predicted;
}

}  // namespace stepcast::cost
