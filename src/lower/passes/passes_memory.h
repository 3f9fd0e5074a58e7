// The tensors of a unit's passes: what its graph does not know (unit_memory.h).
#pragma once

#include "pass_feature.h"

namespace stepcast::lower {

// Fills what `out` says of memory.
void add_memory(const PassState& state, const PassFeatures& features, Passes& out);

}  // namespace stepcast::lower
