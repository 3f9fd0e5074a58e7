// Optimizers by the names of training systems.
#pragma once

#include <string_view>

#include "draft.h"

namespace stepcast::interop::launch {

// Sets the optimizer by its name in PyTorch, HuggingFace, bitsandbytes, DeepSpeed or Megatron-LM.
// Other names are passed on unchanged, and the job's reader refuses them.
void optimizer_name(Draft& draft, const Setting& setting, std::string_view key);

// An option by which each weight is stepped as soon as its gradient is whole. With several ranks or
// micro-batches (not `once`) that is behind the last backward pass, whose forecast has one step
// there.
void steps_in_backward(Draft& draft, const Setting& setting, bool once);

}  // namespace stepcast::interop::launch
