#pragma once

#include <optional>

#include "stepcast/strategy/plan.h"

namespace stepcast::strategy {

// Cuts a plan's shard over a grid of tensor ranks, where the job asks for one, and checks that the
// job's sequences and heads can be cut over its context-parallel ranks.
std::optional<Infeasible> cut(Plan& plan);

}  // namespace stepcast::strategy
