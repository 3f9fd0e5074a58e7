// Which of a site's parameters the rows determine: the loop of fits that parameters leave. The
// method stands in this folder's README.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "runs_fit.h"
#include "runs_prior.h"

namespace stepcast::calibrate {

inline constexpr std::array kParameters = {cost::SiteParameter::clock, cost::SiteParameter::launch,
                                           cost::SiteParameter::layer, cost::SiteParameter::overlap,
                                           cost::SiteParameter::fabric};

struct Selected {
  Fit fit;
  std::vector<bool> active;          // by parameter: moved by the fit
  std::vector<std::string> reasons;  // by parameter: why it is held at its prior; "": it is not
  std::vector<int> determined;
  // Deviations in prior deviations, and correlations, of what is determined and what is held
  // although the rows tie it to that.
  std::vector<int> known;
  Matrix covariance;
};

// `reasons`: of parameters that are ruled out beforehand, "" of the others. Rows that the law
// misses by more than expected are worth less, all of them: `problem`'s sigmas grow to their
// scatter.
Selected select(FitProblem& problem, const Priors& priors, std::vector<std::string> reasons);

}  // namespace stepcast::calibrate
