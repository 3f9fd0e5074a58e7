// Prices of collectives and messages as the engine takes them.
#pragma once

#include "stepcast/cost/collectives.h"
#include "stepcast/program/program.h"

namespace stepcast::lower {

// `bytes`: as NCCL counts them; `memory`: bandwidth of the device with the least.
program::Price price_of(const cost::CollectivePrice& c, Bytes bytes, Bandwidth memory,
                        program::LabelIndex label);

// An operation alone never exceeds what it was measured at: capacities become at least any single
// demand.
void widen_capacities(program::World& world);

}  // namespace stepcast::lower
