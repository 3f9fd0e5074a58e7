// The doubts of a step: factors that are not known exactly, and the seconds of the step that depend
// on each.
//
// There are four kinds: curves (with the calibration's residual), time that the simulation leaves
// out (cost/structure.h, by parts of the critical path), keys of the job whose values are assumed
// (cost/open_facts.h), and a site's own factors. LAW  deviation^2
// of the step = sum over doubts of (seconds under it x its deviation)^2
#pragma once

#include <vector>

#include "report.h"
#include "stepcast/result/report.h"

namespace stepcast::forecast {

// Sets the residuals of GEMM curves in `world` to those of a step: a curve's residual is that of a
// single shape, and errors of several shapes average out.
void average_shapes(const std::vector<cost::Curve>& curves, program::World& world);

// The doubts of the step time, largest first; those that add nothing are left out.
std::vector<result::Doubt> doubts_of(const Source& source);

// Standard deviation of the step, seconds.
double deviation(const std::vector<result::Doubt>& doubts);

// The critical path by curve and by category, longest first.
std::vector<result::CurveShare> curve_shares(const Source& source);
std::vector<result::PathShare> path_shares(const program::Timeline& timeline);

}  // namespace stepcast::forecast
