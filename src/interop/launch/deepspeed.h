// DeepSpeed's JSON: also read by what starts DeepSpeed.
#pragma once

#include <vector>

#include "draft.h"

namespace stepcast::interop::launch {

const std::vector<Rule>& deepspeed_rules();
const std::vector<Unread>& deepspeed_meaningless();
const std::vector<Unread>& deepspeed_unmodelled();
void finish_deepspeed(Draft& draft);

}  // namespace stepcast::interop::launch
