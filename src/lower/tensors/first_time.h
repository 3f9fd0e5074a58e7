// Memory of the first pass through a layer, where it is unlike that of all later ones.
#pragma once

#include "../passes/passes.h"
#include "stepcast/model/operators.h"

namespace stepcast::lower {

// Beside the tensors of a layer's passes (`memory`), those of its first forward pass and of the
// backward pass that belongs to it. What runs again has met the layer before.
void add_first_time(const PassContext& context, model::LayerKind kind, const Redone& redone,
                    UnitMemory& memory);

}  // namespace stepcast::lower
