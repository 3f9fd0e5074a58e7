// What a published row says of offloading.
#pragma once

#include <cstdint>
#include <optional>

#include "fields.h"

namespace stepcast::interop {

// Activations in host memory: "activation offload, 20 layers to CPU", "activations
// (saved_tensors_hooks)".
struct OffloadedActivations {
  std::int64_t layers = 0;  // the first so many; 0: all
};

// nullopt: the row says nothing of it, or in a form that is not read.
std::optional<OffloadedActivations> offloaded_activations(Fields row);

}  // namespace stepcast::interop
