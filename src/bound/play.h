// A pipeline's order played with closed-form times.
#pragma once

#include <vector>

#include "stepcast/lower/data_times.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::bound {

// One micro-batch's passes through one chunk.
struct Pass {
  Time forward{0}, backward{0};  // backward: input and weight gradients together
  Time weight_grad{0};           // of it, at least
  std::int64_t parameters = 0, expert_parameters = 0;
  std::int64_t layers = 0, expert_layers = 0;  // of these, neither embedding's nor head's
  Time copies{0};  // of its saved activations, out to the host and back, at least
};

// Whether it can be played: one step's end joins all ranks, and passes run one by one.
bool can_play(const strategy::Plan& plan);

// LAW  A slot begins no earlier than the one before it on its rank has ended and than the message
//      it needs has come; gradients and parameters take their stream in order of issue; the next
//      step begins behind the last rank's end. A wait that is left out only delays, so the longest
//      path is no longer than the engine's step.
// Saved activations that live on the host come back before the backward pass that reads them; all
// of a rank's together take no less than their copies from its first forward pass on. `steps`: of
// each rank's optimizer where it runs on the host, between all of one step and the next one.
// COST linear in slots: some 20 ns each.
Time play(const strategy::Plan& plan, const std::vector<std::vector<Pass>>& passes,
          const lower::StageMessages& messages, const lower::DataTimes& data,
          const std::vector<Time>& steps);

}  // namespace stepcast::bound
