// Options that keep parts of the training state outside the GPU.
#pragma once

#include <string_view>

#include "draft.h"

namespace stepcast::interop::launch {

// A flag, or a target ("cpu", "nvme", "none"), for offloading the part that `key` names.
void offloaded_if_true(Draft& draft, const Setting& setting, std::string_view key);
void offloaded_to(Draft& draft, const Setting& setting, std::string_view key);
// The share of it, 0 to 1, that is on the CPU.
void offloaded_share(Draft& draft, const Setting& setting, std::string_view key);
// FSDP's CPU offload: parameters, gradients and the optimizer, each fetched when it is needed.
void offload_fsdp(Draft& draft, const Setting& setting);
void fsdp_offloaded_if_true(Draft& draft, const Setting& setting, std::string_view key);

}  // namespace stepcast::interop::launch
