// What makes a step's interval: the factors that are not known, and how much of the step hangs on
// each.
// Three kinds: curves (a calibration's residual; a product's is that of single shapes, of which a
// layer runs several), what the simulation leaves out (cost/structure.h, by what the path's time
// goes into), and a site's own factors. LAW  deviation^2 of the step = sum over doubts of (seconds
// under it x its deviation)^2
#pragma once

#include <vector>

#include "report.h"
#include "stepcast/result/report.h"

namespace stepcast::forecast {

// A residual as the step sees it: products of several shapes err by less than one. Written into
// `world`.
void average_shapes(const std::vector<cost::Curve>& curves, program::World& world);

// Of the step time, largest first; those that add nothing are left out.
std::vector<result::Doubt> doubts_of(const Source& source);

// Standard deviation of the step, seconds.
double deviation(const std::vector<result::Doubt>& doubts);

// The critical path by curve and by category, longest first.
std::vector<result::CurveShare> curve_shares(const Source& source);
std::vector<result::PathShare> path_shares(const program::Timeline& timeline);

}  // namespace stepcast::forecast
