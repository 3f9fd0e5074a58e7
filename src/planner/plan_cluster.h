// One cluster of a catalogue: its best node count and strategy.
#pragma once

#include "plan_strategies.h"

namespace stepcast::planner {

// `offer`: of request.catalogue, of a cluster like that of `strategies`.
result::PlannedCluster plan_cluster(const PlanRequest& request, const Offer& offer,
                                    Strategies& strategies);

}  // namespace stepcast::planner
