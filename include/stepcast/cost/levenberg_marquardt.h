// The algorithm of Levenberg and Marquardt: a problem is linearised at the present point and the damped normal equations
// propose a move. The damping falls after a move that improves the point, and grows after one that does not.
//
// SOURCE  Marquardt, "An algorithm for least-squares estimation of nonlinear parameters", 1963
// COST    one linearisation a step, one evaluation and one factorisation an attempt
#pragma once

#include <algorithm>

namespace stepcast::cost {

struct DampingRule {
  int steps = 40;             // at most
  int attempts = 8;           // of one step, at most
  double first = 1e-2;        // damping, relative to the diagonal
  double growth = 5;          // factor of the damping after an attempt that does not help
  double least_diagonal = 0;  // added to the diagonal: parameters that no residual depends on stay where they are
};

// The outcome of an attempt. `stuck`: the move is so small that another attempt is not worth while.
enum class Attempt { better, worse, stuck };

// A Problem includes Eigen, which this header leaves to it, and has
//   std::pair<Eigen::MatrixXd, Eigen::VectorXd> linearise()   normal matrix and gradient at the present point
//   Attempt attempt(const Eigen::VectorXd& move)              tries the present point less `move`, and stays there if better
//   bool converged()                                          asked after a better attempt
template <class Problem>
void levenberg_marquardt(Problem& problem, const DampingRule& rule) {
  constexpr double kRelief = 5;  // factor by which the damping falls
  constexpr double kMinDamping = 1e-6;
  double damping = rule.first;
  for (int step = 0; step < rule.steps; ++step) {
    const auto [normal, gradient] = problem.linearise();
    Attempt outcome = Attempt::worse;
    for (int i = 0; i < rule.attempts && outcome == Attempt::worse; ++i) {
      auto damped = normal;
      damped.diagonal().array() += damping * normal.diagonal().array() + rule.least_diagonal;
      outcome = problem.attempt(damped.ldlt().solve(gradient));
      damping = outcome == Attempt::better ? std::max(damping / kRelief, kMinDamping) : damping * rule.growth;
    }
    if (outcome != Attempt::better || problem.converged()) {
      break;
    }
  }
}

}  // namespace stepcast::cost
