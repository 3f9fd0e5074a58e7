#include "correction_fit.h"

#include <Eigen/Sparse>
#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace stepcast::cost {
namespace {

// Weight of the difference between two neighbouring nodes, and of a node's own value, relative to
// one measured point. Chosen by the held-out error of the A100 and H100 GEMM tables.
constexpr double kGridSmoothness = 0.3;
constexpr double kRidge = 0.02;
// Samples whose correction exceeds this (log time) weigh less: tables have outliers of a factor of
// ten.
constexpr double kTrusted = 0.45;
// The largest correction that files can hold: gaps on the host between small kernels reach a factor
// of a hundred.
constexpr double kMaxLogCorrection = 4.9;

CorrectionGrid::Axis axis_over(double lowest, double highest, double step) {
  CorrectionGrid::Axis axis;
  axis.first = std::floor(std::log2(lowest) / step) * step;
  axis.step = step;
  const double span = (std::log2(highest) - axis.first) / step;
  axis.nodes = std::max(2, static_cast<int>(std::ceil(span - 1e-9)) + 1);
  return axis;
}

}  // namespace

CorrectionGrid fit_correction(const std::vector<CorrectionSample>& samples,
                              const std::array<double, 3>& steps) {
  CorrectionGrid grid;
  for (int d = 0; d < 3; ++d) {
    const auto [low, high] =
        std::minmax_element(samples.begin(), samples.end(),
                            [d](const auto& a, const auto& b) { return a.x[d] < b.x[d]; });
    grid.axes[d] = axis_over(low->x[d], high->x[d], steps[d]);
  }
  const auto& axes = grid.axes;
  const int nodes = axes[0].nodes * axes[1].nodes * axes[2].nodes;

  std::vector<Eigen::Triplet<double>> entries;
  std::vector<double> right;
  int row = 0;
  for (const CorrectionSample& sample : samples) {
    const double size = std::abs(sample.want);
    const double trust = size <= kTrusted ? 1.0 : std::sqrt(kTrusted / size);
    const CorrectionGrid::Stencil s = grid.stencil(sample.x[0], sample.x[1], sample.x[2]);
    for (int corner = 0; corner < 8; ++corner) {
      if (s.weight[corner] > 0) {
        entries.emplace_back(row, s.node[corner], trust * s.weight[corner]);
      }
    }
    right.push_back(trust * std::clamp(sample.want, -kMaxLogCorrection, kMaxLogCorrection));
    ++row;
  }
  const std::array<int, 3> stride = {axes[1].nodes * axes[2].nodes, axes[2].nodes, 1};
  for (int node = 0; node < nodes; ++node) {
    const std::array<int, 3> place = {node / stride[0], node / stride[1] % axes[1].nodes,
                                      node % axes[2].nodes};
    for (int d = 0; d < 3; ++d) {
      if (place[d] + 1 < axes[d].nodes) {
        entries.emplace_back(row, node, -kGridSmoothness);
        entries.emplace_back(row, node + stride[d], kGridSmoothness);
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

}  // namespace stepcast::cost
