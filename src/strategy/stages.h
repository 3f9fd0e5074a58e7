// Which layers each pipeline rank's chunks hold.
#pragma once

#include <variant>
#include <vector>

#include "stepcast/strategy/plan.h"

namespace stepcast::strategy {

// [pipeline rank][chunk] under a placement; `chunks` of each rank. Infeasible names the key that
// does not fit.
std::variant<std::vector<std::vector<Chunk>>, Infeasible> place_layers(
    const job::Job& job, schedule::Placement placement, int chunks);

}  // namespace stepcast::strategy
