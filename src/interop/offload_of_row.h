// What a published row says of offloading.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fields.h"

namespace stepcast::interop {

// Activations in host memory: "activation offload, 20 layers to CPU", "activations
// (saved_tensors_hooks)", "activation (expert_fc1, moe_act)".
struct OffloadedActivations {
  std::int64_t layers = 0;           // the first so many; 0: all
  std::vector<std::string> modules;  // of these alone; empty: of all
};

// nullopt: the row says nothing of it, or in a form that is not read.
std::optional<OffloadedActivations> offloaded_activations(Fields row);

}  // namespace stepcast::interop
