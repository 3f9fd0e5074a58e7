// DeepSpeed's JSON, which the readers of systems that start DeepSpeed share.
#pragma once

#include <vector>

#include "../options/rule.h"

namespace stepcast::interop::launch {

const std::vector<Rule>& deepspeed_rules();
const std::vector<Unread>& deepspeed_meaningless();
const std::vector<Unread>& deepspeed_unmodelled();
void finish_deepspeed(Draft& draft);

// An option that names DeepSpeed's JSON.
NamedFile deepspeed_file(std::string_view option);

}  // namespace stepcast::interop::launch
