#include "pass_operators.h"

#include <algorithm>
#include <array>

#include "pass_products.h"
#include "passes_quantise.h"
#include "stepcast/base/diagnostics.h"

namespace stepcast::lower {
namespace {

using cost::Layout;
using model::Operator;
using model::OpKind;

// Products: Y[m, n] = X[m, k] W[k, n].
model::Gemm input_gradient(const model::Gemm& g) { return {g.m, g.k, g.n, g.batch}; }
model::Gemm weight_gradient(const model::Gemm& g) { return {g.k, g.n, g.m, g.batch}; }

void product_forward(PassState& state, const Operator& op) {
  kernel(state, {product(state, op, *op.gemm, Layout::forward), op.row_parts, op.name});
}

// The gradients of one input that several linears read, one for each: autograd adds them one by
// one. A compiler reads them all where the sum is used.
void sum_input_gradients(PassState& state, const Operator& op) {
  const int further = op.kind == OpKind::gemm ? op.forward_kernels - 1 : 0;
  if (further <= 0) {
    return;
  }
  const int passes = state.plan.style.compiled ? 1 : 3;  // over a gradient
  memory_kernel(state, cost::MemoryOp::elementwise, further * passes * input_bytes(state, op),
                op.name + " dgrad sum", state.plan.style.compiled ? 1 : further);
}

void linear_input_grad(PassState& state, const Operator& op) {
  kernel(state, {product(state, op, input_gradient(*op.gemm), Layout::input_grad), op.row_parts,
                 op.name + " dgrad"});
  sum_input_gradients(state, op);
}

void linear_weight_grad(PassState& state, const Operator& op) {
  kernel(state, {product(state, op, weight_gradient(*op.gemm), Layout::weight_grad,
                         op.sums_wide || state.plan.accumulation.in_product),
                 op.row_parts, op.name + " wgrad"});
}

// The gradient that autograd hands to the parameter.
void weight_memory(const PassState& state, const Operator& op, TensorRules& rules) {
  rules.weight_gradient = handed_gradient_bytes(state, op);
}

void linear_memory(const PassState& state, const Operator& op, TensorRules& rules) {
  if (op.forward_kernels > 1) {  // products of one input: their gradients and the sum
    rules.summed += 2 * input_bytes(state, op);
  }
  weight_memory(state, op, rules);
}

// Two products without weights: both gradients are of what they read, unless only the first factor
// takes one.
void batched_backward(PassState& state, const Operator& op) {
  const std::string label = op.name + " backward";
  kernel(state, {product(state, op, input_gradient(*op.gemm), Layout::input_grad), 1, label});
  if (op.input_grad > op.forward) {
    kernel(state, {product(state, op, weight_gradient(*op.gemm), Layout::weight_grad), 1, label});
  }
}

// Experts: a product for each of them, or one for all.
void grouped_forward(PassState& state, const Operator& op) {
  kernel(state, {grouped_product(state, op, *op.gemm, Layout::forward), grouped_launches(state, op),
                 op.name});
}

void grouped_input_grad(PassState& state, const Operator& op) {
  kernel(state, {grouped_product(state, op, input_gradient(*op.gemm), Layout::input_grad),
                 grouped_launches(state, op), op.name + " dgrad"});
}

void grouped_weight_grad(PassState& state, const Operator& op) {
  kernel(state, {grouped_product(state, op, weight_gradient(*op.gemm), Layout::weight_grad,
                                 state.plan.accumulation.in_product),
                 grouped_launches(state, op), op.name + " wgrad"});
}

void attention(PassState& state, const Operator& op, bool backward) {
  const cost::AttentionQuery query{
      .shape = *op.attention,
      .kernel = model::attention_kernel(state.plan.style, *op.attention),
      .dtype = attention_type(state),
      .backward = backward,
      .training = true,
      .relief = state.relief,
      .splash = state.plan.style.splash};
  kernel(state, {state.context.kernels->attention(query),
                 backward ? op.backward_kernels : op.forward_kernels,
                 backward ? op.name + " backward" : op.name});
}

void attention_forward(PassState& state, const Operator& op) { attention(state, op, false); }

void attention_backward(PassState& state, const Operator& op) { attention(state, op, true); }

// Operators that memory bandwidth bounds: their bytes are shared out over their kernels.
cost::Priced moved(const PassState& state, const Operator& op, Bytes bytes, int launches,
                   bool backward = false) {
  const cost::Kernels& kernels = *state.context.kernels;
  // With kernels that take elements one by one it is written out as element-wise kernels, not one
  // of its kind.
  const bool written_out = op.forward_singles.elements > 0;
  const cost::MemoryOp kind = written_out ? cost::MemoryOp::elementwise : cost::memory_op(op.kind);
  const model::SingleElements& singles = backward ? op.backward_singles : op.forward_singles;
  const Time further =
      kernels.single_elements(kind, singles.elements, Bytes(singles.moved), backward);
  const cost::Priced all = kernels.memory_operator(kind, bytes, launches, backward, op.row);
  return {all.time + further, all.curve};
}

void moving_forward(PassState& state, const Operator& op) {
  kernel(state, {moved(state, op, op.forward_moved, op.forward_kernels), op.forward_kernels,
                 op.name, kMemoryBound});
}

void moving_backward(PassState& state, const Operator& op) {
  kernel(state, {moved(state, op, op.backward_moved, op.backward_kernels, true),
                 op.backward_kernels, op.name + " backward", kMemoryBound});
}

// A linear, then the choice of each token's experts.
void router_forward(PassState& state, const Operator& op) {
  product_forward(state, op);
  kernel(state, {moved(state, op, op.forward_moved, op.forward_kernels), op.forward_kernels,
                 op.name + " probabilities", kMemoryBound});
}

constexpr std::array kOperatorEmitters = {
    OperatorEmitter{OpKind::gemm, product_forward, linear_input_grad, linear_weight_grad,
                    linear_memory},
    OperatorEmitter{OpKind::batched_gemm, product_forward, batched_backward},
    OperatorEmitter{OpKind::grouped_gemm, grouped_forward, grouped_input_grad, grouped_weight_grad,
                    weight_memory},
    OperatorEmitter{OpKind::fused_attention, attention_forward, attention_backward},
    OperatorEmitter{OpKind::norm, moving_forward, moving_backward},
    OperatorEmitter{OpKind::softmax, moving_forward, moving_backward},
    OperatorEmitter{OpKind::activation, moving_forward, moving_backward},
    OperatorEmitter{OpKind::rotary, moving_forward, moving_backward},
    OperatorEmitter{OpKind::dropout, moving_forward, moving_backward},
    OperatorEmitter{OpKind::residual, moving_forward, moving_backward},
    OperatorEmitter{OpKind::elementwise, moving_forward, moving_backward},
    OperatorEmitter{OpKind::embedding, moving_forward, moving_backward},
    OperatorEmitter{OpKind::router, router_forward, linear_input_grad, linear_weight_grad,
                    weight_memory},
    OperatorEmitter{OpKind::permute, moving_forward, moving_backward},
    OperatorEmitter{OpKind::fused_permute, moving_forward, moving_backward},
    OperatorEmitter{OpKind::cross_entropy, moving_forward, moving_backward},
};

}  // namespace

const OperatorEmitter& emitter_of(OpKind kind) {
  const auto* const at =
      std::find_if(kOperatorEmitters.begin(), kOperatorEmitters.end(),
                   [&](const OperatorEmitter& emitter) { return emitter.kind == kind; });
  STEPCAST_CHECK(at != kOperatorEmitters.end(), "a kind of operator without an emitter");
  return *at;
}

void accumulate_gradient(PassState& state, const Operator& op) {
  const strategy::Plan& plan = state.plan;
  // A single micro-batch's gradient is the sum, unless it has to be cast. Where products add to the
  // sums, those of embeddings, which are no products, are added by a hook (megatron-core 0.9.0,
  // distributed/distributed_data_parallel.py:357), also in a single micro-batch.
  const bool in_product = plan.accumulation.in_product;
  const bool adds = in_product || plan.micro_batches > 1 || plan.accumulation.casts_first;
  if ((in_product && op.gemm) || !adds || op.parameters <= 0 ||
      !plan.gradient_sync.accumulates_whole) {
    return;
  }
  // The new gradient is read, the accumulated one read and written. A cast of its own writes the
  // new one in the sum's format, which the sum then reads.
  const double wide = bytes_per_element(plan.precision.gradients);
  const double bytes = static_cast<double>(op.parameters) *
                       (state.width + (plan.accumulation.casts_first ? 4 : 2) * wide);
  memory_kernel(state, cost::MemoryOp::elementwise, static_cast<std::int64_t>(bytes),
                "accumulate gradient");
}

}  // namespace stepcast::lower
