// Which ranks form the communicators of a plan, and the rings that pass messages round.
#pragma once

#include <functional>
#include <vector>

#include "../passes/passes.h"
#include "rank_layout.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::lower {

// Calls `visit` with each group's role and its ranks in ascending order. Groups of one rank are
// visited for the roles that every job has (tensor, data, norm), left out for the others.
void each_group(const GroupLayout& layout,
                const std::function<void(Role, const std::vector<int>&)>& visit);
void each_group(const strategy::Plan& plan,
                const std::function<void(Role, const std::vector<int>&)>& visit);

// Those of them that hold rank 0 and that a unit's passes use (tensor, context, experts), without
// going through all ranks.
void each_first_group(const strategy::Plan& plan,
                      const std::function<void(Role, const std::vector<int>&)>& visit);

// The rank that follows `rank` round its context or tensor ring; itself where there is none.
// Hierarchical context parallelism runs its rings over the ranks at the same place of each inner
// group.
int next_in_context_ring(const GroupLayout& layout, int rank);
int next_in_tensor_ring(const GroupLayout& layout, int rank);

}  // namespace stepcast::lower
