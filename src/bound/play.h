// A pipeline's order played with closed-form times.
#pragma once

#include <vector>

#include "passes.h"
#include "stepcast/lower/data_times.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::bound {

// Whether play() covers the plan: a step's end joins all ranks, and passes run one by one.
bool can_play(const strategy::Plan& plan);

// LAW  A slot begins when the slot before it on its rank has ended and the message that it needs
//      has arrived. Gradients and parameters take their stream in order of issue. The next step
//      begins when the last rank has ended. Waits that are left out could only make the step
//      longer, so the longest path is no longer than the engine's step.
// Kernels lose speed beside gathers and reductions, by the law of lower/times/beside.h, over the
// time since the stream last had to wait. What began before that, or ends after the slot, is one
// unit's: the next gather waits for the copy out of the one before, the next copy into a reduction
// for the one before.
// Saved activations that live on the host come back before the backward pass that reads them. The
// copies of all activations of a rank take their time from its first forward pass on. `steps`: each
// rank's time of the optimizer where it runs on the host, between two steps.
// COST linear in slots: some 20 ns each.
Time play(const strategy::Plan& plan, const std::vector<std::vector<Pass>>& passes,
          const lower::StageMessages& messages, const lower::DataTimes& data,
          const std::vector<Time>& steps);

}  // namespace stepcast::bound
