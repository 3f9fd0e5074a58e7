// Robust non-linear least squares: Levenberg-Marquardt with box bounds and Huber's loss.
#pragma once

#include <Eigen/Dense>
#include <functional>

namespace stepcast::cost {

struct Bounds {
  Eigen::VectorXd low;
  Eigen::VectorXd high;
};

// Parameters near `start` that minimise the loss of residuals(x). The loss is linear beyond
// `huber`, since measured tables have outliers.
Eigen::VectorXd least_squares(
    const Eigen::VectorXd& start, const Bounds& bounds, double huber,
    const std::function<Eigen::VectorXd(const Eigen::VectorXd&)>& residuals);

}  // namespace stepcast::cost
