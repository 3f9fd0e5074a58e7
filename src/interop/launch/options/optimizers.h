// Optimizers by the names of training systems.
#pragma once

#include <string_view>

#include "draft.h"

namespace stepcast::interop::launch {

// Sets the optimizer by its name in PyTorch, HuggingFace, bitsandbytes, DeepSpeed or Megatron-LM.
// Other names are passed on unchanged, and the job's reader refuses them.
void optimizer_name(Draft& draft, const Setting& setting, std::string_view key);

}  // namespace stepcast::interop::launch
