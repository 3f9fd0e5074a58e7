// Prices of products and what their weight gradients cost beside them.
#pragma once

#include "pass_state.h"

namespace stepcast::lower {

// A product of an operator's operands in `shape`; `accumulates`: it adds to what its result held.
// Casts are kernels of their own (passes_quantise.cpp).
cost::Priced product(const PassState& state, const model::Operator& op, const model::Gemm& shape,
                     cost::Layout layout, bool accumulates = false);

// The products of all experts on this rank, `shape.batch` of them, and how many kernels they are.
cost::Priced grouped_product(const PassState& state, const model::Operator& op,
                             const model::Gemm& shape, cost::Layout layout,
                             bool accumulates = false);
int grouped_launches(const PassState& state, const model::Operator& op);

// Bytes of the weight gradient that autograd hands to the parameter. Where the product adds to the
// sum itself, that is an empty tensor of its size (Megatron-LM, core/tensor_parallel/layers.py:
// grad_weight). 0 for units that are gathered whole: sharded_gradients.cpp allocates theirs.
std::int64_t handed_gradient_bytes(const PassState& state, const model::Operator& op);

// The empty gradient is one for each shape of weight and is kept, as Transformer Engine's linears
// do; the output projection and the router are Megatron-LM's own.
bool keeps_empty_gradient(const strategy::Plan& plan, const model::Operator& op);

}  // namespace stepcast::lower
