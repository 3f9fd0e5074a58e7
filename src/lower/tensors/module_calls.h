// The modules of a unit as a framework of modules calls them (HuggingFace Transformers), in forward
// order: where hooks around modules run.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "stepcast/model/operators.h"

namespace stepcast::lower {

struct Array;

// One module: a linear, a norm, an activation, or a container of others.
struct ModuleCall {
  std::uint16_t place = 0;        // operator of the unit ahead of which it is called
  std::uint16_t within = 0;       // modules that follow it in the list and are called by it
  std::uint16_t first_array = 0;  // its own parameters, among the unit's arrays
  std::uint16_t arrays = 0;
};

// `arrays`: of the unit's parameters, each with its operator. A linear with a low-rank adapter is a
// container of PEFT's: its own module, a dropout and two linears (0.21.2,
// tuners/lora/layer.py:1083).
std::vector<ModuleCall> module_calls(const model::OperatorGraph& graph,
                                     const std::vector<Array>& arrays);

// In the order in which the gradients of their results arrive: a container ahead of what it calls,
// and that in reverse.
void each_backward(const std::vector<ModuleCall>& calls,
                   const std::function<void(const ModuleCall&)>& visit);

}  // namespace stepcast::lower
