#include "least_squares.h"

#include <algorithm>
#include <cmath>

namespace stepcast::cost {
namespace {

constexpr int kMaxSteps = 40;
constexpr int kMaxAttempts = 8;
constexpr double kDifference = 1e-4;  // step of the numeric derivative
constexpr double kLongestStep = 0.7;  // parameters are logarithms: a factor of two a step
constexpr double kEnough = 1e-5;      // relative gain of a step below which the search ends

double loss(const Eigen::VectorXd& r, double huber) {
  double sum = 0;
  for (const double v : r) {
    const double a = std::abs(v);
    sum += a <= huber ? v * v : huber * (2 * a - huber);
  }
  return sum;
}

}  // namespace

Eigen::VectorXd least_squares(
    const Eigen::VectorXd& start, const Bounds& bounds, double huber,
    const std::function<Eigen::VectorXd(const Eigen::VectorXd&)>& residuals) {
  Eigen::VectorXd x = start.cwiseMax(bounds.low).cwiseMin(bounds.high);
  Eigen::VectorXd r = residuals(x);
  double cost = loss(r, huber);
  double damping = 1e-2;
  for (int step = 0; step < kMaxSteps; ++step) {
    Eigen::MatrixXd jacobian(r.size(), x.size());
    for (Eigen::Index j = 0; j < x.size(); ++j) {
      Eigen::VectorXd y = x;
      y[j] += kDifference;
      jacobian.col(j) = (residuals(y) - r) / kDifference;
    }
    const Eigen::VectorXd weight =
        r.unaryExpr([huber](double v) { return std::abs(v) <= huber ? 1.0 : huber / std::abs(v); });
    const Eigen::MatrixXd normal = jacobian.transpose() * weight.asDiagonal() * jacobian;
    const Eigen::VectorXd gradient = jacobian.transpose() * weight.cwiseProduct(r);
    bool better = false;
    double gain = 0;
    for (int attempt = 0; attempt < kMaxAttempts && !better; ++attempt) {
      Eigen::MatrixXd damped = normal;
      damped.diagonal().array() += damping * normal.diagonal().array() + 1e-9;
      const Eigen::VectorXd move = Eigen::VectorXd(damped.ldlt().solve(gradient))
                                       .cwiseMax(-kLongestStep)
                                       .cwiseMin(kLongestStep);
      const Eigen::VectorXd y = (x - move).cwiseMax(bounds.low).cwiseMin(bounds.high);
      const Eigen::VectorXd trial = residuals(y);
      const double trial_cost = loss(trial, huber);
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
    if (!better || gain < kEnough) {
      break;
    }
  }
  return x;
}

}  // namespace stepcast::cost
