#include "expert_rows.h"

#include <algorithm>

namespace stepcast::model {

OneHot one_hot_of(const Builder& b, const ExpertRows& rows) {
  const std::int64_t n = std::max<std::int64_t>(1, b.shard.sequences);
  return {ceil_div(rows.tokens, n), ceil_div(rows.sent, n), n};
}

namespace {

// `gradients`: how many of its two factors take a gradient.
Operator mask_product(const Builder& b, const char* name, const Gemm& g, int gradients) {
  Operator op = named(name, OpKind::batched_gemm, Module::moe);
  op.gemm = g;
  const double flops = 2.0 * static_cast<double>(g.batch) * static_cast<double>(g.m) *
                       static_cast<double>(g.n) * static_cast<double>(g.k);
  op.forward = Flops(flops);
  op.input_grad = Flops(gradients * flops);
  const std::int64_t once = g.batch * (g.m * g.k + g.k * g.n + g.m * g.n) * b.element;
  moves(op, once, gradients * once, 1, gradients);
  op.forward_output = Bytes(g.batch * g.m * g.n * b.element);
  return op;
}

}  // namespace

// The mask of weights, which combines, and that of booleans made from it, which dispatches and
// takes no gradient. The weights' mask takes one, which is summed over its last dimension.
Node add_one_hot_dispatch(Builder& b, const OneHot& h, Node from, Node routed, Tensor& weights) {
  const std::int64_t places = h.sequences * h.tokens * h.slots;
  Operator masks = named("masks", OpKind::elementwise, Module::moe);
  moves(masks, places * (b.element + 1), places * b.element, 1, 1);
  masks.forward_output = Bytes(places * (b.element + 1));
  weights = b.tensor(places * b.element);
  const Tensor booleans = b.tensor(places);
  keep(masks, "weights", weights);
  const Node made = b.add(std::move(masks), {routed});
  Operator op = mask_product(b, "dispatch", {b.routed, h.slots, h.tokens, h.sequences}, 1);
  op.expert = ExpertRole::dispatch;
  keep(op, "mask", booleans);
  return b.add(std::move(op), {from, made});
}

Node add_one_hot_combine(Builder& b, const OneHot& h, Node from, Node routed,
                         const Tensor& weights) {
  Operator op = mask_product(b, "combine", {h.tokens, b.routed, h.slots, h.sequences}, 2);
  op.expert = ExpertRole::combine;
  keep(op, "expert_output", b.tensor(h.sequences * h.slots * b.routed * b.element));
  keep(op, "weights", weights);
  return b.add(std::move(op), {from, routed});
}

// Rows are repeated for every expert and weighted, and what experts return is summed over them
// (job::MoeRuntime::every_token). Backward, the sum's gradient is written for each expert; the
// weights' gradient is summed from a product of its own.
Node add_every_token(Builder& b, const ExpertRows& rows, Node from, Node routed) {
  const std::int64_t row = b.routed * b.element;
  const std::int64_t copies = rows.sent * row;
  Operator repeat = named("repeat", OpKind::elementwise, Module::moe);
  moves(repeat, rows.tokens * row + copies, rows.tokens * row + copies, 1, 1);
  repeat.forward_output = Bytes(copies);
  const Node repeated = b.add(std::move(repeat), {from});
  Operator weigh = named("weigh", OpKind::elementwise, Module::moe);
  weigh.expert = ExpertRole::dispatch;
  moves(weigh, 2 * copies, (2 + 3 + 1) * copies, 1, 3);
  weigh.forward_output = Bytes(copies);
  weigh.backward_temporary = Bytes(copies);
  keep(weigh, "repeated", b.tensor(copies));
  return b.add(std::move(weigh), {repeated, routed});
}

Node add_sum_of_experts(Builder& b, const ExpertRows& rows, Node from) {
  const std::int64_t row = b.routed * b.element;
  const std::int64_t moved = (rows.sent + rows.tokens) * row;
  Operator sum = named("expert_sum", OpKind::elementwise, Module::moe);
  sum.expert = ExpertRole::combine;
  moves(sum, moved, moved, 1, 1);
  sum.forward_output = Bytes(rows.tokens * row);
  return b.add(std::move(sum), {from});
}

// Experts whose kernels gather their rows from the tokens, activate what they make and weight its
// gradient (liger-kernel 0.8.5, ops/fused_moe.py:160, LigerFusedMoEFunction). Kept: the tokens, and
// what is activated. Back, the gradients of both products' inputs are tensors, that of the experts'
// results is none; rows of gradients are summed to tokens.
Node add_experts_in_kernels(Builder& b, const ExpertRows& rows, const Stream& read, Node routed) {
  const job::Moe& moe = *b.model.moe;
  const std::int64_t e = b.element;
  const std::int64_t width = moe.ffn / b.shard.expert_tensor;
  const std::int64_t returned = rows.computed * b.routed * e;
  const std::int64_t tokens = rows.tokens * b.routed * e;
  const Tensor made = b.tensor(rows.computed * 2 * width * e);
  const auto product = [&](const char* name, std::int64_t n, std::int64_t k) {
    const std::int64_t each = std::max<std::int64_t>(1, ceil_div(rows.computed, moe.experts));
    Operator op = linear({name, Module::moe, TensorRole::none, {each, n, k, moe.experts}, 0, e, 1});
    op.kind = OpKind::grouped_gemm;
    op.forward = op.input_grad = op.weight_grad = Flops(
        2.0 * static_cast<double>(rows.computed) * static_cast<double>(n) * static_cast<double>(k));
    op.forward_output = Bytes(rows.computed * n * e);
    op.expert_parameters = true;
    return op;
  };
  Operator up = product("expert_fc1", 2 * width, b.routed);
  up.expert = ExpertRole::dispatch;
  // Behind it rows of gradients, beside the weighted activations of the function's first kernel.
  const std::int64_t activated = rows.computed * width * e;
  up.backward_temporary = Bytes(returned + activated);
  up.largest_temporary = Bytes(std::max(returned, activated));
  keep(up, "input", read.tensor);
  keep(up, "made", made);
  Node node = b.add(std::move(up), {read.node, routed});
  Operator act = named("expert_act", OpKind::activation, Module::moe);
  moves(act, 0, 0, 0, 0);  // within the products' kernels
  act.backward_kernels = 1;
  act.forward_output = Bytes(activated);
  keep(act, "input", made);
  node = b.add(std::move(act), {node});
  node = b.add(product("expert_fc2", b.routed, width), {node});
  Operator sum = named("expert_sum", OpKind::fused_permute, Module::moe);
  sum.expert = ExpertRole::combine;
  moves(sum, returned + tokens, returned + tokens, 1, 1);
  sum.forward_output = Bytes(tokens);
  sum.forward_temporary = Bytes(activated);
  sum.gradient = Operator::Gradient::in_kept;  // it is none
  return b.add(std::move(sum), {node, routed});
}

}  // namespace stepcast::model
