#include "least_squares.h"

#include <algorithm>
#include <cmath>

#include "stepcast/cost/levenberg_marquardt.h"

namespace stepcast::cost {
namespace {

constexpr int kMaxSteps = 40;
constexpr int kMaxAttempts = 8;
constexpr double kDifference = 1e-4;  // step of the numeric derivative
constexpr double kLongestStep =
    0.7;                          // parameters are logarithms, so this is a factor of two a step
constexpr double kEnough = 1e-5;  // relative gain of a step below which the search ends

double loss(const Eigen::VectorXd& r, double huber) {
  double sum = 0;
  for (const double v : r) {
    const double a = std::abs(v);
    sum += a <= huber ? v * v : huber * (2 * a - huber);
  }
  return sum;
}

using Residuals = std::function<Eigen::VectorXd(const Eigen::VectorXd&)>;

class RobustFit {
 public:
  RobustFit(const Eigen::VectorXd& start, const Bounds& bounds, double huber,
            const Residuals& residuals)
      : bounds_(bounds), huber_(huber), residuals_(residuals) {
    x_ = start.cwiseMax(bounds.low).cwiseMin(bounds.high);
    r_ = residuals(x_);
    cost_ = loss(r_, huber);
  }

  std::pair<Eigen::MatrixXd, Eigen::VectorXd> linearise() const {
    Eigen::MatrixXd jacobian(r_.size(), x_.size());
    for (Eigen::Index j = 0; j < x_.size(); ++j) {
      Eigen::VectorXd y = x_;
      y[j] += kDifference;
      jacobian.col(j) = (residuals_(y) - r_) / kDifference;
    }
    const Eigen::VectorXd weight = r_.unaryExpr(
        [this](double v) { return std::abs(v) <= huber_ ? 1.0 : huber_ / std::abs(v); });
    Eigen::MatrixXd normal = jacobian.transpose() * weight.asDiagonal() * jacobian;
    Eigen::VectorXd gradient = jacobian.transpose() * weight.cwiseProduct(r_);
    return {std::move(normal), std::move(gradient)};
  }

  Attempt attempt(const Eigen::VectorXd& move) {
    const Eigen::VectorXd y = (x_ - move.cwiseMax(-kLongestStep).cwiseMin(kLongestStep))
                                  .cwiseMax(bounds_.low)
                                  .cwiseMin(bounds_.high);
    const Eigen::VectorXd trial = residuals_(y);
    const double trial_cost = loss(trial, huber_);
    if (!(trial_cost < cost_)) {
      return Attempt::worse;
    }
    gain_ = (cost_ - trial_cost) / cost_;
    x_ = y;
    r_ = trial;
    cost_ = trial_cost;
    return Attempt::better;
  }

  bool converged() const { return gain_ < kEnough; }
  const Eigen::VectorXd& x() const { return x_; }

 private:
  const Bounds& bounds_;
  double huber_;
  const Residuals& residuals_;
  Eigen::VectorXd x_;
  Eigen::VectorXd r_;
  double cost_ = 0;
  double gain_ = 0;  // of the last step, relative
};

}  // namespace

Eigen::VectorXd least_squares(
    const Eigen::VectorXd& start, const Bounds& bounds, double huber,
    const std::function<Eigen::VectorXd(const Eigen::VectorXd&)>& residuals) {
  RobustFit fit(start, bounds, huber, residuals);
  levenberg_marquardt(fit, {.steps = kMaxSteps,
                            .attempts = kMaxAttempts,
                            .first = 1e-2,
                            .growth = 5,
                            .least_diagonal = 1e-9});
  return fit.x();
}

}  // namespace stepcast::cost
