#include "runs_fit.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "stepcast/cost/levenberg_marquardt.h"

namespace stepcast::calibrate {
namespace {

// The loss is linear beyond this number of deviations (Huber's constant for 95 % efficiency
// is 1.345; a forecast's own error has heavier tails than noise, so ordinary rows reach 2).
constexpr double kHuber = 2;
constexpr int kIterations = 12;
constexpr double kConverged = 0.01;  // prior deviations
// The step of numeric derivatives, in prior deviations. It is so large that rounding to picoseconds
// and changes of NCCL's algorithm do not matter.
constexpr double kDifference = 0.2;

double loss_of(const FitProblem& p, const Vector& residual, const Vector& x) {
  double sum = x.squaredNorm() / 2;
  for (Eigen::Index i = 0; i < residual.size(); ++i) {
    const double z = std::abs(residual[i] / p.sigma[i]);
    sum += z <= kHuber ? z * z / 2 : kHuber * (z - kHuber / 2);
  }
  return sum;
}

Vector weights(const FitProblem& p, const Vector& residual) {
  Vector w = Vector::Ones(residual.size());
  for (Eigen::Index i = 0; i < residual.size(); ++i) {
    const double z = std::abs(residual[i] / p.sigma[i]);
    w[i] = z <= kHuber ? 1 : kHuber / z;
  }
  return w;
}

Vector column(const FitProblem& p, const Vector& x, const Vector& at_x, Eigen::Index k) {
  Vector moved = x;
  const double h = x[k] + kDifference <= p.high[k] ? kDifference : -kDifference;
  moved[k] = std::clamp(x[k] + h, p.low[k], p.high[k]);
  const double step = moved[k] - x[k];
  if (step == 0) {
    return Vector::Zero(at_x.size());
  }
  return (p.forecasts(moved) - at_x) / step;
}

std::vector<int> indices(const std::vector<bool>& active) {
  std::vector<int> out;
  for (std::size_t i = 0; i < active.size(); ++i) {
    if (active[i]) {
      out.push_back(static_cast<int>(i));
    }
  }
  return out;
}

// The search for the most probable parameters; only the active ones change.
class SiteSearch {
 public:
  SiteSearch(const FitProblem& p, const std::vector<int>& chosen, Fit& fit)
      : p_(p), chosen_(chosen), fit_(fit), at_(p.forecasts(fit.x)) {
    fit_.residual = at_ - p_.measured;
    fit_.loss = loss_of(p_, fit_.residual, fit_.x);
  }

  std::pair<Matrix, Vector> linearise() {
    const auto n = static_cast<Eigen::Index>(chosen_.size());
    fit_.weight = weights(p_, fit_.residual);
    Matrix j(at_.size(), n);
    Vector x(n);
    for (Eigen::Index c = 0; c < n; ++c) {
      j.col(c) = column(p_, fit_.x, at_, chosen_[static_cast<std::size_t>(c)]);
      x[c] = fit_.x[chosen_[static_cast<std::size_t>(c)]];
    }
    const Vector inverse = (fit_.weight.array() / p_.sigma.array().square()).matrix();
    Matrix normal = j.transpose() * inverse.asDiagonal() * j + Matrix::Identity(n, n);
    Vector gradient = j.transpose() * inverse.asDiagonal() * fit_.residual + x;
    return {std::move(normal), std::move(gradient)};
  }

  cost::Attempt attempt(const Vector& move) {
    Vector next = fit_.x;
    for (Eigen::Index c = 0; c < move.size(); ++c) {
      const auto k = chosen_[static_cast<std::size_t>(c)];
      next[k] = std::clamp(fit_.x[k] - move[c], p_.low[k], p_.high[k]);
    }
    moved_ = (next - fit_.x).cwiseAbs().maxCoeff();
    if (moved_ < kConverged / 10) {
      return cost::Attempt::stuck;
    }
    const Vector there = p_.forecasts(next);
    const double loss = loss_of(p_, there - p_.measured, next);
    if (!(loss < fit_.loss)) {
      return cost::Attempt::worse;
    }
    fit_.x = next;
    at_ = there;
    fit_.residual = at_ - p_.measured;
    fit_.loss = loss;
    return cost::Attempt::better;
  }

  bool converged() const { return moved_ < kConverged; }
  const Vector& forecasts() const { return at_; }

 private:
  const FitProblem& p_;
  const std::vector<int>& chosen_;
  Fit& fit_;
  Vector at_;  // ln of the forecasts at fit_.x
  double moved_ = 0;
};

}  // namespace

double loss(const FitProblem& p, const Vector& x) {
  return loss_of(p, p.forecasts(x) - p.measured, x);
}

Fit fit(const FitProblem& p, const std::vector<bool>& active, Vector start) {
  const auto chosen = indices(active);
  Fit out;
  out.x = start.cwiseMax(p.low).cwiseMin(p.high);
  for (Eigen::Index k = 0; k < out.x.size(); ++k) {
    out.x[k] = active[static_cast<std::size_t>(k)] ? out.x[k] : 0;
  }
  SiteSearch search(p, chosen, out);
  if (!chosen.empty()) {
    cost::levenberg_marquardt(search,
                              {.steps = kIterations, .attempts = 5, .first = 1e-3, .growth = 8});
  }
  const Vector& at = search.forecasts();
  out.weight = weights(p, out.residual);
  out.jacobian.resize(at.size(), out.x.size());
  for (Eigen::Index k = 0; k < out.x.size(); ++k) {
    out.jacobian.col(k) = column(p, out.x, at, k);
  }
  return out;
}

double scatter(const FitProblem& p, const Fit& f, const std::vector<bool>& active) {
  const auto free =
      static_cast<double>(f.residual.size()) - static_cast<double>(indices(active).size());
  if (free < 1) {
    return 1;
  }
  // An outlier must not raise the scatter of the others.
  const double chi =
      (f.residual.array() / p.sigma.array()).cwiseAbs().cwiseMin(kHuber).square().sum();
  return std::max(1.0, std::sqrt(chi / free));
}

Matrix precision(const FitProblem& p, const Fit& f, const std::vector<int>& chosen,
                 double scatter) {
  const auto n = static_cast<Eigen::Index>(chosen.size());
  Matrix j(f.jacobian.rows(), n);
  for (Eigen::Index c = 0; c < n; ++c) {
    j.col(c) = f.jacobian.col(chosen[static_cast<std::size_t>(c)]);
  }
  const Vector inverse = (f.weight.array() / (p.sigma.array() * scatter).square()).matrix();
  return j.transpose() * inverse.asDiagonal() * j + Matrix::Identity(n, n);
}

Vector left_out(const FitProblem& p, const Fit& f, const std::vector<int>& chosen) {
  Vector out = f.residual;
  const Matrix all = precision(p, f, chosen, 1);
  const auto n = static_cast<Eigen::Index>(chosen.size());
  for (Eigen::Index i = 0; i < out.size() && n > 0; ++i) {
    Vector j(n);
    for (Eigen::Index c = 0; c < n; ++c) {
      j[c] = f.jacobian(i, chosen[static_cast<std::size_t>(c)]);
    }
    const double w = f.weight[i] / (p.sigma[i] * p.sigma[i]);
    const Vector step = (all - w * j * j.transpose()).ldlt().solve(w * f.residual[i] * j);
    Vector within = step;
    for (Eigen::Index c = 0; c < n; ++c) {
      const auto k = chosen[static_cast<std::size_t>(c)];
      within[c] = std::clamp(f.x[k] + step[c], p.low[k], p.high[k]) - f.x[k];
    }
    out[i] = f.residual[i] + j.dot(within);
  }
  return out;
}

}  // namespace stepcast::calibrate
