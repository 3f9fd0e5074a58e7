// What a stage keeps of its parameters from step to step, tensor by tensor (states.cpp), and how
// much of it the optimizer of this rank steps.
#pragma once

#include <vector>

#include "../stage/stage_state.h"
#include "optimizer_states.h"

namespace stepcast::lower {

// How the ranks that share an array divide its states.
Shares shares(const Stage& stage);
// Trained arrays of this stage in forward order; elements that are in no array count as one more.
std::vector<Array> stage_arrays(const Stage& stage);
// States of this rank wherever they stand: dense parameters, experts and frozen ones.
StateBytes held_states(const Stage& stage);
// Trained elements whose optimizer states this rank holds.
double stepped_elements(const Stage& stage);
// The share of them that the host steps.
double share_on_host(const Stage& stage);
// Makes a buffer of these tensors, bytes each as requested.
void divide(Stage& stage, program::BufferIndex buffer, const std::vector<std::int64_t>& tensors);
// Bytes of tensors, each rounded as the allocator does.
std::int64_t rounded_sum(const std::vector<std::int64_t>& tensors);

}  // namespace stepcast::lower
