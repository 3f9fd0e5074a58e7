// Recomputation: what closed forms and optimal orders (recompute_optimal.cpp) ask of it.
#pragma once

#include "stage_state.h"

namespace stepcast::lower {

// Micro-batches of a chunk between their forward and backward passes, at most; -1: of all chunks.
int in_flight(const Stage& stage, int chunk);

}  // namespace stepcast::lower
