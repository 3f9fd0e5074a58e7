// What a search minimises, per second of a step.
#pragma once

#include "stepcast/job/job.h"
#include "stepcast/search/search.h"

namespace stepcast::search {

// By how much the objective grows with a second of the step on this cluster: 1, GPUs, or their rated watts. 0: a device
// states no power, which energy needs.
double per_second(Objective objective, const job::Cluster& cluster);

}  // namespace stepcast::search
