// Priors of a site's parameters: normal distributions of the logarithm (for `layer`, of the
// seconds), whose widths follow from published measurements.
#pragma once

#include <string>

#include "runs_fit.h"
#include "stepcast/cost/site.h"
#include "stepcast/job/job.h"

namespace stepcast::calibrate {

class Priors {
 public:
  // The centres of launch and layer are those of the training system.
  explicit Priors(const job::System& system);

  // At `x` prior deviations from the centre.
  double value(cost::SiteParameter p, double x) const;
  double deviation(cost::SiteParameter p) const;   // of the logarithm; for layer in seconds
  std::string words(cost::SiteParameter p) const;  // "1.0 +- 8 %"
  void bounds(Vector& low, Vector& high) const;    // of x
  static bool in_seconds(cost::SiteParameter p);

 private:
  double launch_ = 0;
  double layer_ = 0;
};

}  // namespace stepcast::calibrate
