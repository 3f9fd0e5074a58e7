// A site's parameters applied to one job.
// LAW  clock: rates of matrix products and attention, and the power cap, times it
// (cost::Kernels::scale_clock)
//      launch, layer: System::launch and layer_overhead, unless the user states them
//      overlap: 1 / speed - 1 of kernels beside communication, times it
//      fabric: the NICs' reachable rate, times it
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
  std::vector<std::string> notes;  // what does not apply, and why

  bool has(cost::SiteParameter p) const { return applies[static_cast<std::size_t>(p)]; }
  double value(cost::SiteParameter p) const { return (*site)[p].value; }
  // The site knows how sure it is: the curves' own share of that goes.
  bool sure(cost::SiteParameter p) const { return has(p) && (*site)[p].deviation > 0; }
};

// Which parameters hold for the job. Throws InputError when the site is of other devices. `site`
// may be null.
SiteUse use_of(const cost::Site* site, const job::Job& job);

// The job with launch, layer and fabric as the site has them.
job::Job at_site(const SiteUse& use, const job::Job& job);

// Slow-down tables with the time lost times `factor`.
void scale_slowdowns(program::World& world, double factor);

// The curves as sure as the site makes them; written into `world` as well.
std::vector<cost::Curve> sharpen(const SiteUse& use, const std::vector<cost::Curve>& curves,
                                 program::World& world);

// Curves that slow-down tables hang on, by id.
std::vector<bool> overlap_curves(const program::World& world);

// Seconds of the step under each parameter, of those that curves carry.
std::array<double, cost::kSiteParameters> parameter_seconds(
    const SiteUse& use, const std::vector<cost::Curve>& curves, const program::World& world,
    const std::vector<double>& curve_seconds);

// Standard deviation of the step, from what one deviation of each parameter adds and what the step
// scatters about the law, seconds.
double deviation(const SiteUse& use, const std::array<double, cost::kSiteParameters>& seconds,
                 double scattered);

}  // namespace stepcast::forecast
