// What DeepSpeed's BF16_Optimizer makes of the flat gradients in fp32 that it keeps.
#pragma once

#include <vector>

#include "../stage/feature.h"

namespace stepcast::lower {

// The tensors in which the step's gradients are reduced, to be released behind that.
std::vector<program::BufferIndex> cast_flat_gradients(Stage& stage);
// A backward pass's gradients are added to those of the step.
void widen_pass_gradients(Stage& stage);

}  // namespace stepcast::lower
