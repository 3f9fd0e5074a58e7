// Parameters of sharded optimizer states (ZeRO-1 and 2), gathered once a step.
#pragma once

#include "../stage/feature.h"

namespace stepcast::lower {

// Optimizer states are sharded and parameters are whole between steps.
bool shards_states(const strategy::Plan& plan);
// Gathers updated elements of parameters on `stream`.
void gather_parameters(Stage& stage, const Elements& elements, program::StreamIndex stream);

}  // namespace stepcast::lower
