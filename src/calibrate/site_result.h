// From a fit of a site's parameters to the site file and its report.
#pragma once

#include <vector>

#include "runs_prior.h"
#include "runs_select.h"
#include "stepcast/result/site_calibration.h"

namespace stepcast::calibrate {

// Statistics of forecasts over measured values.
result::SiteError error_of(const std::vector<double>& forecast_over_measured);

// The site at a point of the fit. `only`: the parameters that differ from their priors; null: those
// whose value at the point differs.
cost::Site site_at(const result::SiteCalibration& out, const Priors& priors, const Vector& x,
                   const std::vector<bool>* only);

// The deviation of each parameter after the fit, and their correlations.
void fill_deviations(const Selected& selected, const Priors& priors, cost::Site& site);

// The parameters' reasons in `site`, and all of them in the report.
void fill_parameters(const Selected& selected, const Priors& priors, cost::Site& site,
                     result::SiteCalibration& out);

}  // namespace stepcast::calibrate
