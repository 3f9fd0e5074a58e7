// Different numbers of micro-batches on data-parallel ranks.
#pragma once

#include <optional>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::strategy {

// Why data-parallel ranks must run equal numbers of micro-batches, given the different numbers in
// `each`; nothing where they need not.
std::optional<Infeasible> must_be_even(const job::Job& job, const cluster::Grid& grid,
                                       const std::vector<int>& each);

// Whether all batches of the plan finish the chunks of each rank in the same order, which is the
// order in which gradients are reduced.
std::optional<Infeasible> reduce_in_one_order(const Plan& plan);

}  // namespace stepcast::strategy
