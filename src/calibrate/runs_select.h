// Selects the parameters of a site that the rows determine: fits are repeated with fewer
// parameters. The method is in this folder's README.
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
  std::vector<bool> active;          // by parameter: it is fitted
  std::vector<std::string> reasons;  // by parameter: why it is held at its prior; "": it is fitted
  std::vector<int> determined;
  // Covariance, in prior deviations, of the parameters that are determined and of those that are
  // held only because the rows do not distinguish them from a determined one. `known` are their
  // indices.
  std::vector<int> known;
  Matrix covariance;
};

// `reasons`: why a parameter is held from the beginning; "" for the others. Where rows scatter more
// than expected, the sigmas of all rows in `problem` are raised to their scatter.
Selected select(FitProblem& problem, const Priors& priors, std::vector<std::string> reasons);

}  // namespace stepcast::calibrate
