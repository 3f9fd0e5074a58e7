// One emitter per kind of operator: the kernels of its forward pass, of the gradient of what it
// read and of the gradient of its weights, and the memory that these take beside what the graph
// says.
#pragma once

#include "pass_state.h"

namespace stepcast::lower {

struct OperatorEmitter {
  using Emit = void(PassState& state, const model::Operator& op);
  using Memory = void(const PassState& state, const model::Operator& op, TensorRules& rules);

  model::OpKind kind = model::OpKind::elementwise;
  Emit* forward = nullptr;
  Emit* input_grad = nullptr;   // of an operator without weights: its whole backward pass
  Emit* weight_grad = nullptr;  // nullptr: it has no weights
  Memory* memory = nullptr;     // nullptr: nothing
};

const OperatorEmitter& emitter_of(model::OpKind kind);

// Gradients of weights that were made apart are added to those of the micro-batches before, where
// the product itself does not add.
void accumulate_gradient(PassState& state, const model::Operator& op);

}  // namespace stepcast::lower
