#include "runs_select.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "stepcast/base/statistics.h"

namespace stepcast::calibrate {
namespace {

using cost::SiteParameter;

// A parameter whose deviation after the fit is more than this share of its prior deviation is not
// determined.
constexpr double kDetermined = 0.6;
// Two parameters whose errors correlate more strongly than this are not distinguished.
constexpr double kSeparable = 0.9;
// A parameter whose prior deviation changes no step by more than this share has no effect.
constexpr double kTiny = 2e-3;

// Raises every row's sigma to a robust estimate of the residuals' scatter. Returns whether it was
// below.
bool widen(FitProblem& problem, const Vector& residual) {
  constexpr Eigen::Index kEnough = 4;
  if (residual.size() < kEnough) {
    return false;
  }
  std::vector<double> z;
  for (Eigen::Index i = 0; i < residual.size(); ++i) {
    z.push_back(std::abs(residual[i]) / problem.sigma[i]);
  }
  constexpr double kMedian = 0.6745;  // of a normal distribution's absolute value
  const double factor = median(z) / kMedian;
  if (factor <= 1.1) {
    return false;
  }
  problem.sigma *= factor;
  return true;
}

// Repeats the fit and holds parameters at their priors until the rows determine all that remain.
class Selection {
 public:
  Selection(FitProblem& problem, const Priors& priors, std::vector<std::string> reasons)
      : problem_(problem), priors_(priors), reasons_(std::move(reasons)) {
    active_.resize(kParameters.size());
    for (std::size_t i = 0; i < kParameters.size(); ++i) {
      active_[i] = reasons_[i].empty();
    }
  }

  void run() {
    fit_ = best_start();
    // Where rows scatter more than expected, all of them get a larger sigma, since otherwise each
    // would be an outlier.
    for (int round = 0; round < 2 && widen(problem_, fit_.residual); ++round) {
      fit_ = best_start();
    }
    while (drop()) {
      fit_ = search_ ? best_start() : fit(problem_, active_, fit_.x);
      search_ = false;
    }
    settle();
  }

  Selected result() const { return {fit_, active_, reasons_, chosen(false), known_, covariance_}; }

 private:
  // Where no stage waits for its host, the steps do not depend on launch and layer; so the search
  // also starts from slow hosts.
  Fit best_start() {
    Vector start = Vector::Zero(static_cast<Eigen::Index>(kParameters.size()));
    Fit best = fit(problem_, active_, start);
    constexpr auto kLaunch = static_cast<Eigen::Index>(SiteParameter::launch);
    constexpr auto kLayer = static_cast<Eigen::Index>(SiteParameter::layer);
    Vector slowest = start;
    double least = loss(problem_, start);
    for (const auto& [launch, layer] : {std::pair(1, 0), {2, 0}, {3, 0}, {0, 1}, {0, 2}, {0, 4}}) {
      start[kLaunch] = active_[kLaunch] ? launch : 0;
      start[kLayer] = active_[kLayer] ? layer : 0;
      if (const double there = loss(problem_, start); there < least) {
        least = there;
        slowest = start;
      }
    }
    if (slowest.squaredNorm() > 0) {
      Fit other = fit(problem_, active_, slowest);
      if (other.loss < best.loss - 1e-3) {
        best = std::move(other);
      }
    }
    return best;
  }

  std::vector<int> chosen(bool with_tied) const {
    std::vector<int> out;
    for (std::size_t i = 0; i < active_.size(); ++i) {
      if (active_[i] || (with_tied && tied_.count(static_cast<int>(i)) > 0)) {
        out.push_back(static_cast<int>(i));
      }
    }
    return out;
  }

  double conditional(int i) const {
    return 1 / std::sqrt(precision(problem_, fit_, {i}, scatter(problem_, fit_, active_))(0, 0));
  }

  void hold(int i, std::string reason, int carrier = -1) {
    active_[static_cast<std::size_t>(i)] = false;
    reasons_[static_cast<std::size_t>(i)] = std::move(reason);
    if (carrier >= 0) {
      tied_[i] = carrier;
    }
  }

  // Holds one or more parameters that the rows do not determine. Returns whether there was any.
  bool drop() {
    const auto all = chosen(false);
    bool weak = false;
    for (const int i : all) {
      const double share = conditional(i);
      if (share >= kDetermined) {
        hold(i, weak_reason(i, share));
        weak = true;
      }
    }
    if (weak || all.empty()) {
      return weak;
    }
    if (all.size() == 1) {
      return drop_bounded();
    }
    const Matrix cov = precision(problem_, fit_, all, scatter(problem_, fit_, active_)).inverse();
    int a = -1;
    int b = -1;
    double most = 0;
    Eigen::Index widest = 0;
    for (Eigen::Index i = 0; i < cov.rows(); ++i) {
      widest = cov(i, i) > cov(widest, widest) ? i : widest;
      for (Eigen::Index j = 0; j < i; ++j) {
        const double r = std::abs(cov(i, j)) / std::sqrt(cov(i, i) * cov(j, j));
        if (r > most) {
          most = r;
          a = static_cast<int>(j);
          b = static_cast<int>(i);
        }
      }
    }
    if (most > kSeparable) {
      return separate(all[static_cast<std::size_t>(a)], all[static_cast<std::size_t>(b)], most);
    }
    if (std::sqrt(cov(widest, widest)) >= kDetermined) {
      // It is determined only in combination with another: the one with the strongest correlation.
      Eigen::Index partner = widest == 0 ? 1 : 0;
      double nearest_r = 0;
      for (Eigen::Index j = 0; j < cov.rows(); ++j) {
        const double r =
            j == widest ? 0 : std::abs(cov(widest, j)) / std::sqrt(cov(widest, widest) * cov(j, j));
        if (r > nearest_r) {
          nearest_r = r;
          partner = j;
        }
      }
      return separate(all[static_cast<std::size_t>(widest)], all[static_cast<std::size_t>(partner)],
                      nearest_r);
    }
    return drop_bounded();
  }

  // Where the rows determine only a combination of two parameters, holds the one without which
  // the rows fit better, else the less physical one.
  bool separate(int a, int b, double correlation) {
    const auto without = [&](int i) {
      auto rest = active_;
      rest[static_cast<std::size_t>(i)] = false;
      return fit(problem_, rest, fit_.x).loss;
    };
    constexpr double kClear = 2;  // difference of the loss: odds of seven to one
    const double difference = without(a) - without(b);
    const int out = std::abs(difference) > kClear ? (difference < 0 ? a : b)
                    : rank_of(a) > rank_of(b)     ? a
                                                  : b;
    const int stays = out == a ? b : a;
    hold(out,
         fmt::format("the rows do not distinguish it from the {} (correlation {:.2f}), whose "
                     "factor includes both",
                     describe(kParameters[static_cast<std::size_t>(stays)]), correlation),
         stays);
    return true;
  }

  // Holds a parameter whose best value is on its physical bound: something else must affect these
  // rows.
  bool drop_bounded() {
    for (const int i : chosen(false)) {
      const double x = fit_.x[i];
      if (x <= problem_.low[i] + 1e-6 || x >= problem_.high[i] - 1e-6) {
        const SiteParameter p = kParameters[static_cast<std::size_t>(i)];
        const auto range = cost::range_of(p);
        hold(i, Priors::in_seconds(p)
                    ? fmt::format("its best value is at the bound of plausible host times ({:g} to "
                                  "{:g} us), so something else slows these rows",
                                  1e6 * range.low, 1e6 * range.high)
                    : fmt::format("its best value is at the bound of what physics allows ({:g} to "
                                  "{:g}), so something else affects these rows",
                                  range.low, range.high));
        // A parameter that was held in favour of this one is fitted in its place.
        for (auto it = tied_.begin(); it != tied_.end(); ++it) {
          if (it->second == i) {
            active_[static_cast<std::size_t>(it->first)] = true;
            reasons_[static_cast<std::size_t>(it->first)].clear();
            tied_.erase(it);
            search_ = true;
            break;
          }
        }
        return true;
      }
    }
    return false;
  }

  // The rank of a parameter by how physical it is: a number of a data sheet first, host time of a
  // layer last.
  static int rank_of(int i) {
    constexpr std::array<int, kParameters.size()> kRank = {0, 1, 4, 3, 2};
    return kRank[static_cast<std::size_t>(i)];
  }

  std::string weak_reason(int i, double share) const {
    const double effect = fit_.jacobian.col(i).cwiseAbs().maxCoeff();
    const SiteParameter p = kParameters[static_cast<std::size_t>(i)];
    if (effect < kTiny) {
      return no_effect(p);
    }
    return fmt::format(
        "it changes no step by more than {:.1f} % within its prior deviation ({}); with the rows "
        "its deviation would still be {:.0f} % of the prior deviation",
        100 * effect, priors_.words(p), 100 * share);
  }

  static const char* no_effect(SiteParameter p) {
    switch (p) {
      case SiteParameter::clock:
        return "no row's step depends on arithmetic";
      case SiteParameter::launch:
        return "no row's step waits for the host: kernels outlast their launches";
      case SiteParameter::layer:
        return "no row's step waits for the host";
      case SiteParameter::overlap:
        return "no row has communication beside kernels";
      case SiteParameter::fabric:
        return "no row has exposed communication between nodes";
    }
    return "";
  }

  void settle() {
    known_ = chosen(true);
    if (!known_.empty()) {
      covariance_ = precision(problem_, fit_, known_, scatter(problem_, fit_, active_)).inverse();
    }
  }

  FitProblem& problem_;
  const Priors& priors_;
  std::vector<std::string> reasons_;
  std::vector<bool> active_;
  bool search_ = false;      // a parameter is fitted again: the next fit starts from several points
  std::map<int, int> tied_;  // from a held parameter to the one that it is not distinguished from
  Fit fit_;
  std::vector<int> known_;
  Matrix covariance_;
};

}  // namespace

Selected select(FitProblem& problem, const Priors& priors, std::vector<std::string> reasons) {
  Selection selection(problem, priors, std::move(reasons));
  selection.run();
  return selection.result();
}

}  // namespace stepcast::calibrate
