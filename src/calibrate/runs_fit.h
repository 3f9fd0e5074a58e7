// The most probable parameters of a site given measured steps.
//
// LAW     minimise sum over rows of huber((ln forecast(x) - ln measured) / sigma) + |x|^2 / 2,
//         with x in prior deviations
// SOURCE  Bayes with normal priors; Levenberg-Marquardt on the linearised forecast, Huber's weights
//         (1964)
// COST    a few dozen forecasts of each row
#pragma once

#include <Eigen/Dense>
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "stepcast/cost/site.h"

namespace stepcast::calibrate {

using Vector = Eigen::VectorXd;
using Matrix = Eigen::MatrixXd;

// Logarithm of the forecast step of every row, at parameters given in prior deviations from their
// priors.
using Forecasts = std::function<Vector(const Vector& x)>;

struct FitProblem {
  Forecasts forecasts;
  Vector measured;   // ln seconds
  Vector sigma;      // of each row
  Vector low, high;  // bounds of x
};

struct Fit {
  Vector x;
  Vector residual;  // ln forecast - ln measured, at x
  Matrix jacobian;  // rows by all parameters, at x
  Vector weight;    // Huber's
  double loss = 0;
};

double loss(const FitProblem& problem, const Vector& x);

// Only parameters with `active` move; the others stay at 0.
Fit fit(const FitProblem& problem, const std::vector<bool>& active, Vector start);

// Scatter of the rows as a multiple of `sigma`, at least 1.
double scatter(const FitProblem& problem, const Fit& fit, const std::vector<bool>& active);

// Inverse of the posterior's covariance over the chosen parameters, in the order of their indices.
Matrix precision(const FitProblem& problem, const Fit& fit, const std::vector<int>& chosen,
                 double scatter);

// Residual of each row by a fit without it (linearised).
Vector left_out(const FitProblem& problem, const Fit& fit, const std::vector<int>& chosen);

}  // namespace stepcast::calibrate
