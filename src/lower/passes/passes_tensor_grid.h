// Units on a grid of tensor ranks.
#pragma once

#include "stepcast/model/operators.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::lower {

// Tensor ranks form a grid: 2D, 2.5D or 3D.
bool on_grid(const strategy::Plan& plan);

// A grid of tensor ranks cuts every parameter: the graph with what one rank holds.
model::OperatorGraph cut_parameters(const model::OperatorGraph& graph, const strategy::Plan& plan);

}  // namespace stepcast::lower
