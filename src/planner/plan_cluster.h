// One cluster of a catalogue: its best node count and strategy.
#pragma once

#include "plan_strategies.h"

namespace stepcast::planner {

// `offer`: one of request.catalogue whose cluster is of the kind of `strategies`.
result::PlannedCluster plan_cluster(const PlanRequest& request, const Offer& offer,
                                    Strategies& strategies);

}  // namespace stepcast::planner
