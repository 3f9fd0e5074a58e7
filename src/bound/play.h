// A pipeline's order played with closed-form times.
#pragma once

#include <vector>

#include "stepcast/lower/data_times.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::bound {

// One micro-batch's passes through one chunk.
struct Pass {
  Time forward{0}, backward{0};  // backward: input and weight gradients together
  Time weight_grad{0};           // the least part of `backward`
  std::int64_t parameters = 0, expert_parameters = 0;
  std::int64_t layers = 0, expert_layers = 0;  // parts of these that belong to layers
  // Of these, what stays whole from the forward pass to the backward pass although others are
  // dropped in between.
  std::int64_t staying = 0, expert_staying = 0;
  Time copies{0};  // of its saved activations, out to the host and back, at least
  // Bytes kept from the forward pass to the backward pass; beside them, while the last unit's
  // forward pass runs, and its backward pass.
  std::int64_t kept = 0, last_forward = 0, last_backward = 0;
};

// Whether play() covers the plan: a step's end joins all ranks, and passes run one by one.
bool can_play(const strategy::Plan& plan);

// LAW  A slot begins when the slot before it on its rank has ended and the message that it needs
// has
//      arrived. Gradients and parameters take their stream in order of issue. The next step begins
//      when the last rank has ended. Waits that are left out could only make the step longer, so
//      the longest path is no longer than the engine's step.
// Saved activations that live on the host come back before the backward pass that reads them. The
// copies of all activations of a rank take their time from its first forward pass on. `steps`: each
// rank's time of the optimizer where it runs on the host, between two steps.
// COST linear in slots: some 20 ns each.
Time play(const strategy::Plan& plan, const std::vector<std::vector<Pass>>& passes,
          const lower::StageMessages& messages, const lower::DataTimes& data,
          const std::vector<Time>& steps);

}  // namespace stepcast::bound
