// One cluster of a catalogue: its best node count and strategy.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "stepcast/forecast/forecaster.h"
#include "stepcast/planner/plan.h"
#include "stepcast/search/space.h"

namespace stepcast::planner {

// By how much something misses the limits, and what it is ranked by among those that miss them
// alike. 0 and 0: within.
struct Rank {
  double misfit = 0;     // memory above the capacity, over the capacity
  double violation = 0;  // the worst of the limits, over the limit
  double objective = 0;
  auto operator<=>(const Rank&) const = default;
};

// Node counts up to `most` on which the ranks divide into sizes that the space offers, fewest
// first. LAW  nodes x GPUs = tensor x pipeline x context x data, and micro_batch x data divides the
// global batch.
std::vector<int> node_counts(const search::Space& space, const job::Job& job, int gpus_per_node,
                             int most);

// `offer`: of request.catalogue.
result::PlannedCluster plan_cluster(const PlanRequest& request, const Offer& offer,
                                    forecast::Forecaster& forecaster,
                                    const std::filesystem::path& data_directory);

}  // namespace stepcast::planner
