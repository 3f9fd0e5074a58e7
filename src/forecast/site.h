// Applies a site's parameters to one job.
// LAW  clock: multiplies the rates of GEMMs and attention, and the power cap
//      (cost::Kernels::scale_clock)
//      launch, layer: System::launch and layer_overhead, unless the user states them
//      overlap: multiplies 1 / speed - 1 of kernels beside communication
//      fabric: multiplies the rate that NICs reach
#pragma once

#include <array>
#include <string>
#include <vector>

#include "stepcast/cost/curve.h"
#include "stepcast/cost/site.h"
#include "stepcast/job/job.h"
#include "stepcast/program/program.h"

namespace stepcast::forecast {

struct SiteUse {
  const cost::Site* site = nullptr;
  std::array<bool, cost::kSiteParameters> applies{};
  std::vector<std::string> notes;  // parameters that do not apply, and why

  bool has(cost::SiteParameter p) const { return applies[static_cast<std::size_t>(p)]; }
  double value(cost::SiteParameter p) const { return (*site)[p].value; }
  // Whether the site states the parameter's deviation, which then replaces the residuals of curves.
  bool sure(cost::SiteParameter p) const { return has(p) && (*site)[p].deviation > 0; }
};

// Determines the parameters that hold for the job. Throws InputError when the site is of other
// devices. `site` may be null.
SiteUse use_of(const cost::Site* site, const job::Job& job);

// The job with the site's values of launch, layer and fabric.
job::Job at_site(const SiteUse& use, const job::Job& job);

// Multiplies the time lost in all slow-down tables by `factor`.
void scale_slowdowns(program::World& world, double factor);

// The curves with the residuals that the site leaves; these are also written into `world`.
std::vector<cost::Curve> sharpen(const SiteUse& use, const std::vector<cost::Curve>& curves,
                                 program::World& world);

// Whether a slow-down table depends on each curve, by id.
std::vector<bool> overlap_curves(const program::World& world);

// Seconds of the step that depend on each parameter, for parameters that act on curves.
std::array<double, cost::kSiteParameters> parameter_seconds(
    const SiteUse& use, const std::vector<cost::Curve>& curves, const program::World& world,
    const std::vector<double>& curve_seconds);

// Standard deviation of the step in seconds, from the `seconds` that one deviation of each
// parameter adds and the `scattered` seconds by which steps scatter about the forecast.
double deviation(const SiteUse& use, const std::array<double, cost::kSiteParameters>& seconds,
                 double scattered);

}  // namespace stepcast::forecast
