// Fits a grouped curve to measured fused layers of experts, on top of a given GEMM law.
#pragma once

#include <vector>

#include "gemm_fit.h"
#include "grouped.h"

namespace stepcast::cost {

struct ExpertPoint {
  ExpertLayer layer;
  double seconds = 0;
};

struct GroupedFit {
  GroupedCurve curve;  // fitted to all points; `over` is the caller's
  SizeClass held_out;  // on a quarter of the layers that a separate fit did not see at any length
};

// Throws std::invalid_argument with fewer than 40 points.
GroupedFit fit_grouped(const std::vector<ExpertPoint>& points, const GemmLaw& over,
                       ElementBytes element);

}  // namespace stepcast::cost
