// Runs a stage's features over its order. For the optimal recomputation (recompute_optimal.cpp),
// which lowers a stage several times, and for tests; everybody else calls lower_stage().
#pragma once

#include "feature.h"

namespace stepcast::lower {

// A stage with its features, before anything is lowered; `context` must outlive it. `orders`: of
// its chunks, for optimal recomputation.
Stage make_stage(const StageContext& context, int number, ChainOrders orders = {});
// Lowers it, once.
program::Program run_stage(Stage& stage);

}  // namespace stepcast::lower
