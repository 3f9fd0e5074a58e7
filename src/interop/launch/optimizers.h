// What training systems call their optimizers.
#pragma once

#include <string_view>

#include "draft.h"

namespace stepcast::interop::launch {

// By the names of PyTorch, HuggingFace, bitsandbytes, DeepSpeed and Megatron-LM; others go on as
// they are, for the job's reader to refuse.
void optimizer_name(Draft& draft, const Setting& setting, std::string_view key);

}  // namespace stepcast::interop::launch
