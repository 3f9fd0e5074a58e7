// Which products of a compiled layer run again where torch.compile's partitioner has a budget of
// memory below what the results of all products take (torch 2.15, _functorch/partitioners.py:3506,
// choose_saved_values_set).
#pragma once

#include <vector>

#include "redone.h"

namespace stepcast::lower {

// By operator, the share of its products that run again under the plan's budget. `redone` keeps the
// results of all products, `parts` are shares of each operator's products, of which an operator may
// stand for several.
std::vector<double> products_again(const strategy::Plan& plan, const model::OperatorGraph& graph,
                                   const Redone& redone,
                                   const std::vector<std::vector<double>>& parts);

}  // namespace stepcast::lower
