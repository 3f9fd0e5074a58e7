// What a sweep's points say only together.
#pragma once

#include "stepcast/result/sweep.h"

namespace stepcast::planner {

// The axis along which it scales, each point's efficiency along it, and the front of time against
// cost.
void finish(result::Sweep& sweep);

}  // namespace stepcast::planner
