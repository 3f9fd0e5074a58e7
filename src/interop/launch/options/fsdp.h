// Options of PyTorch's FSDP as Transformers, Accelerate and Composer spell them.
#pragma once

#include "draft.h"

namespace stepcast::interop::launch {

// FULL_SHARD, SHARD_GRAD_OP, ... or their numbers.
void fsdp_strategy(Draft& draft, const Setting& setting, std::string_view key);
void fsdp_strategy_word(Draft& draft, const Setting& setting, const std::string& word);
void fsdp_backward_prefetch(Draft& draft, const Setting& setting, std::string_view key);
void fsdp_forward_prefetch(Draft& draft, const Setting& setting, std::string_view key);
void full_recompute(Draft& draft, const Setting& setting, std::string_view key);
void fsdp_wrapping(Draft& draft, const Setting& setting, std::string_view key);
// FSDP2 shards parameter by parameter.
void fsdp_version(Draft& draft, const Setting& setting, std::string_view key);

}  // namespace stepcast::interop::launch
