// Liger-Kernel's operators, which trainers switch on all together or one by one.
#pragma once

#include "../options/draft.h"

namespace stepcast::interop::launch {

// A switch for all that Liger-Kernel patches by default.
void liger_if_true(Draft& draft, const Setting& setting, std::string_view key);

// Trainer's use_liger_kernel, with what liger_kernel_config says of each operator (transformers
// 5.23.0, training_args.py:957 and :963).
void trainer_liger(Draft& draft);

// A switch for each operator by itself (axolotl 0.19.0, integrations/liger/plugin.py:190).
void axolotl_liger(Draft& draft);

}  // namespace stepcast::interop::launch
