// Linears that run as tiles of their weight.
#pragma once

#include <vector>

#include "item.h"
#include "stepcast/model/operators.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::lower {

// The operator runs in tiles.
bool tiled(const strategy::Plan& plan, const model::Operator& op);

// Tells each tile of a pass how many elements the next one has.
void link_tiles(std::vector<Item>& items);

}  // namespace stepcast::lower
