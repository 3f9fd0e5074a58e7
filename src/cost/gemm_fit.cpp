#include "gemm_fit.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <Eigen/Sparse>
#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace stepcast::cost {
namespace {

constexpr int kParameters = 6;
constexpr int kMinPoints = 40;
// Points further off than this (in log time) are bounded in their pull: tables hold outliers of a
// factor of ten.
constexpr double kHuber = 0.15;
// Weight of the differences between neighbouring nodes, and of the nodes themselves, against one
// measured point. Chosen by the held-out error of the A100 and H100 tables.
constexpr double kSmooth = 0.3;
constexpr double kRidge = 0.02;

// What physics allows: a kernel's start and end, and the share of the data sheet's bandwidth,
// whatever a table with few memory-bound points would prefer.
constexpr std::array<double, 2> kFixed = {1e-6, 20e-6};
constexpr std::array<double, 2> kBandwidth = {0.6, 0.98};
constexpr double kStartBandwidth = 0.85;

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

using Parameters = Eigen::Matrix<double, kParameters, 1>;

// All parameters are positive: they are fitted as logarithms, the tail as a logit.
Parameters pack(const GemmLaw& l) {
  Parameters x;
  x << std::log(l.fixed), std::log(l.rate), std::log(l.bandwidth), std::log(l.prologue),
      std::log(l.tile), std::log(l.tail / (1 - l.tail));
  return x;
}

GemmLaw unpack(const Parameters& x, const GemmLaw& like) {
  GemmLaw l = like;
  l.fixed = std::exp(x[0]);
  l.rate = std::exp(x[1]);
  l.bandwidth = std::exp(x[2]);
  l.prologue = std::exp(x[3]);
  l.tile = std::exp(x[4]);
  l.tail = 1 / (1 + std::exp(-x[5]));
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

double huber_cost(const Eigen::VectorXd& r) {
  double sum = 0;
  for (const double v : r) {
    const double a = std::abs(v);
    sum += a <= kHuber ? v * v : kHuber * (2 * a - kHuber);
  }
  return sum;
}

GemmLaw fit_physics(const std::vector<GemmPoint>& points, const GemmLaw& start, ElementBytes e) {
  GemmLaw like = start;
  like.grid = {};
  like.bandwidth = kStartBandwidth * start.bandwidth;
  Parameters x = pack(like);
  Eigen::VectorXd r = residuals(unpack(x, like), points, e);
  double cost = huber_cost(r);
  double damping = 1e-2;
  for (int step = 0; step < 40; ++step) {
    Eigen::MatrixXd jacobian(r.size(), kParameters);
    constexpr double kStep = 1e-4;
    for (int j = 0; j < kParameters; ++j) {
      Parameters y = x;
      y[j] += kStep;
      jacobian.col(j) = (residuals(unpack(y, like), points, e) - r) / kStep;
    }
    Eigen::VectorXd weight =
        r.unaryExpr([](double v) { return std::abs(v) <= kHuber ? 1.0 : kHuber / std::abs(v); });
    const Eigen::MatrixXd normal = jacobian.transpose() * weight.asDiagonal() * jacobian;
    const Eigen::VectorXd gradient = jacobian.transpose() * weight.cwiseProduct(r);
    bool better = false;
    double gain = 0;
    for (int attempt = 0; attempt < 8 && !better; ++attempt) {
      Eigen::MatrixXd damped = normal;
      damped.diagonal().array() += damping * normal.diagonal().array() + 1e-9;
      Parameters y = x - Parameters(damped.ldlt().solve(gradient)).cwiseMax(-0.7).cwiseMin(0.7);
      y[0] = std::clamp(y[0], std::log(kFixed[0]), std::log(kFixed[1]));
      y[2] = std::clamp(y[2], std::log(kBandwidth[0] * start.bandwidth),
                        std::log(kBandwidth[1] * start.bandwidth));
      y[3] = std::clamp(y[3], std::log(4.0), std::log(1024.0));
      y[4] = std::clamp(y[4], std::log(0.5), std::log(64.0));
      y[5] = std::clamp(y[5], -4.0, 4.0);
      const Eigen::VectorXd trial = residuals(unpack(y, like), points, e);
      const double trial_cost = huber_cost(trial);
      if (trial_cost < cost) {
        gain = (cost - trial_cost) / cost;
        x = y;
        r = trial;
        cost = trial_cost;
        damping = std::max(damping / 5, 1e-6);
        better = true;
      } else {
        damping *= 5;
      }
    }
    if (!better || gain < 1e-5) {
      break;
    }
  }
  return unpack(x, like);
}

CorrectionGrid::Axis axis_over(double lowest, double highest, double step) {
  CorrectionGrid::Axis axis;
  axis.first = std::floor(std::log2(lowest) / step) * step;
  axis.step = step;
  axis.nodes =
      std::max(2, static_cast<int>(std::ceil((std::log2(highest) - axis.first) / step - 1e-9)) + 1);
  return axis;
}

CorrectionGrid fit_grid(const GemmLaw& physics, const std::vector<GemmPoint>& points,
                        ElementBytes e) {
  CorrectionGrid grid;
  std::array<double, 3> low = {1e300, 1e300, 1e300};
  std::array<double, 3> high = {0, 0, 0};
  for (const GemmPoint& p : points) {
    const std::array<double, 3> x = {static_cast<double>(p.m * p.batch), static_cast<double>(p.n),
                                     static_cast<double>(p.k)};
    for (int d = 0; d < 3; ++d) {
      low[d] = std::min(low[d], x[d]);
      high[d] = std::max(high[d], x[d]);
    }
  }
  grid.axes = {axis_over(low[0], high[0], 1.0), axis_over(low[1], high[1], 0.5),
               axis_over(low[2], high[2], 0.5)};
  const int nodes = grid.axes[0].nodes * grid.axes[1].nodes * grid.axes[2].nodes;

  std::vector<Eigen::Triplet<double>> entries;
  std::vector<double> right;
  int row = 0;
  for (const GemmPoint& p : points) {
    const GemmWork w = work_of(p, e);
    const double body = gemm_seconds(physics, w) - physics.fixed;
    // What the correction must explain is the part above the fixed cost.
    const double want = std::log(std::max(p.seconds - physics.fixed, 0.2 * p.seconds) / body);
    const double trust =
        std::abs(want) <= 3 * kHuber ? 1.0 : std::sqrt(3 * kHuber / std::abs(want));
    const CorrectionGrid::Stencil s = grid.stencil(w.m * w.batch, w.n, w.k);
    for (int corner = 0; corner < 8; ++corner) {
      if (s.weight[corner] > 0) {
        entries.emplace_back(row, s.node[corner], trust * s.weight[corner]);
      }
    }
    right.push_back(trust * want);
    ++row;
  }
  const std::array<int, 3> stride = {grid.axes[1].nodes * grid.axes[2].nodes, grid.axes[2].nodes,
                                     1};
  for (int node = 0; node < nodes; ++node) {
    const std::array<int, 3> place = {node / stride[0], node / stride[1] % grid.axes[1].nodes,
                                      node % grid.axes[2].nodes};
    for (int d = 0; d < 3; ++d) {
      if (place[d] + 1 < grid.axes[d].nodes) {
        entries.emplace_back(row, node, -kSmooth);
        entries.emplace_back(row, node + stride[d], kSmooth);
        right.push_back(0);
        ++row;
      }
    }
    entries.emplace_back(row, node, kRidge);
    right.push_back(0);
    ++row;
  }
  Eigen::SparseMatrix<double> a(row, nodes);
  a.setFromTriplets(entries.begin(), entries.end());
  const Eigen::Map<const Eigen::VectorXd> b(right.data(), row);
  const Eigen::SparseMatrix<double> normal = a.transpose() * a;
  const Eigen::SimplicialLDLT<Eigen::SparseMatrix<double>> solver(normal);
  if (solver.info() != Eigen::Success) {
    throw std::runtime_error("the correction's normal equations are singular");
  }
  const Eigen::VectorXd x = solver.solve(a.transpose() * b);
  grid.values.resize(nodes);
  for (int node = 0; node < nodes; ++node) {
    grid.values[node] = static_cast<float>(x[node]);
  }
  return grid;
}

GemmLaw fit_once(const std::vector<GemmPoint>& points, const GemmLaw& start, ElementBytes e) {
  GemmLaw law = fit_physics(points, start, e);
  law.grid = fit_grid(law, points, e);
  return law;
}

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

}  // namespace

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
