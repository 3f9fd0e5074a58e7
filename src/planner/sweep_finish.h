// Figures of a sweep that follow from several points together.
#pragma once

#include "stepcast/result/sweep.h"

namespace stepcast::planner {

// Fills the axis along which the sweep scales, each point's efficiency along it, and the Pareto
// front of time against cost.
void finish(result::Sweep& sweep);

}  // namespace stepcast::planner
