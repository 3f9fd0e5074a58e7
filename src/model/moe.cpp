// Mixture of experts: router, dispatch, the local experts as grouped GEMMs, return; shared experts
// beside them.
//
// LAW  tokens of a rank are routed to k experts each; balanced routing gives every local expert the
// same number of
//      rows. With `expert_tensor` ranks on an expert's weights, each of them sees the rows of all.
#include <algorithm>

#include "builder.h"

namespace stepcast::model {
namespace {

Node add_router(Builder& b, const job::Moe& moe, Node from, const Tensor& input) {
  const std::int64_t rows = b.local_tokens;
  Operator op = named("router", OpKind::router, Module::moe);
  op.gemm = Gemm{rows, moe.experts, b.hidden, 1};
  op.forward = op.input_grad = op.weight_grad =
      Flops(2.0 * static_cast<double>(rows) * static_cast<double>(moe.experts) *
            static_cast<double>(b.hidden));
  op.parameters = moe.experts * b.hidden + (moe.router_bias ? moe.experts : 0);
  const std::int64_t scores = 4 * rows * moe.experts;  // fp32
  const std::int64_t product = rows * b.hidden * b.element + op.parameters * b.element + scores;
  moves(op, product, 2 * product, 1, 2);
  op.forward_output = Bytes(scores);
  keep(op, "input", input);
  const Node logits = b.add(std::move(op), {from});

  // Softmax, top-k, probabilities scattered to the routing map, tokens counted by expert; and back.
  Operator choose = named("top_k", OpKind::softmax, Module::moe);
  moves(choose, 7 * scores, 5 * scores, 7, 5);
  choose.forward_output = Bytes(scores);
  keep(choose, "probabilities", b.tensor(scores));
  return b.add(std::move(choose), {logits});
}

}  // namespace

Node add_moe(Builder& b, Node from, const Tensor& input) {
  const job::Moe& moe = *b.model.moe;
  const std::int64_t e = b.element;
  const int local_experts = moe.experts / b.shard.expert;
  const int et = b.shard.expert_tensor;
  const std::int64_t width = moe.ffn / et;
  const std::int64_t fc1_width = (b.model.gated_mlp ? 2 : 1) * width;
  const std::int64_t sent = b.local_tokens * moe.topk;
  // Without sequence parallelism all tensor ranks hold the same tokens already.
  const bool distinct = b.shard.sequence_parallel || b.shard.tensor == 1;
  const std::int64_t rows = distinct ? sent * et : sent;
  const std::int64_t rows_each = std::max<std::int64_t>(1, ceil_div(rows, local_experts));
  const std::int64_t fc1_bias = b.model.biases.mlp ? local_experts * fc1_width : 0;
  const std::int64_t fc2_bias = b.model.biases.mlp ? local_experts * b.hidden : 0;

  const Node routed = add_router(b, moe, from, input);

  Operator permute = named("permute", OpKind::permute, Module::moe);
  const std::int64_t copy = (sent + b.local_tokens) * b.hidden * e;
  moves(permute, copy, copy, 2, 2);
  permute.forward_output = Bytes(sent * b.hidden * e);
  keep(permute, "row_map", b.tensor(4 * sent));
  Node node = b.add(std::move(permute), {from, routed});

  const Tensor received = b.tensor(rows * b.hidden * e);
  const Tensor fc1_output = b.tensor(rows * fc1_width * e);
  const Tensor fc2_input = b.tensor(rows * width * e);
  const auto expert_linear = [&](const char* name, TensorRole role, std::int64_t n, std::int64_t k,
                                 std::int64_t bias, const Tensor& read) {
    Operator op = linear({name,
                          Module::moe,
                          et > 1 ? role : TensorRole::none,
                          {rows_each, n, k, local_experts},
                          bias,
                          e,
                          1});
    op.kind = OpKind::grouped_gemm;
    // Balanced rows, not those rounded up to whole rows an expert.
    op.forward = op.input_grad = op.weight_grad =
        Flops(2.0 * static_cast<double>(rows) * static_cast<double>(n) * static_cast<double>(k));
    op.forward_output = Bytes(rows * n * e);
    op.expert_parameters = true;
    keep(op, "input", read);
    return b.add(std::move(op), {node});
  };
  node = expert_linear("expert_fc1", TensorRole::column, fc1_width, b.hidden, fc1_bias, received);
  node =
      b.add(activation(b, "expert_act", Module::moe, rows, width, fc1_bias, fc1_output, fc2_input),
            {node});
  node = expert_linear("expert_fc2", TensorRole::row, b.hidden, width, fc2_bias, fc2_input);

  // Rows come back, are weighted by their probabilities (whose gradient needs them) and summed per
  // token.
  Operator unpermute = named("unpermute", OpKind::permute, Module::moe);
  const Tensor returned = b.tensor(sent * b.hidden * e);
  moves(unpermute, copy, copy + returned.bytes, 2, 3);
  unpermute.forward_output = Bytes(b.local_tokens * b.hidden * e);
  keep(unpermute, "expert_output", returned);
  node = b.add(std::move(unpermute), {node, routed});
  if (moe.shared_experts == 0) {
    return node;
  }

  const std::int64_t shared_width =
      moe.shared_experts * (moe.shared_ffn > 0 ? moe.shared_ffn : moe.ffn);
  const Node shared = add_mlp(b, Module::shared_expert, shared_width, from, input);
  Operator sum = named("shared_add", OpKind::elementwise, Module::shared_expert);
  const std::int64_t local = b.local_tokens * b.hidden * e;
  moves(sum, 3 * local, 0, 1, 0);
  if (moe.shared_gate) {  // y = routed + sigmoid(x g) shared: a product with one column, a sigmoid,
                          // a scaling
    sum.parameters = b.hidden;
    sum.forward = sum.input_grad = sum.weight_grad =
        Flops(2.0 * static_cast<double>(b.local_tokens) * static_cast<double>(b.hidden));
    moves(sum, 6 * local, 6 * local, 4, 5);
    keep(sum, "gate_input", input);
    keep(sum, "shared_output", b.tensor(local));
  }
  sum.forward_output = Bytes(local);
  return b.add(std::move(sum), {node, shared});
}

}  // namespace stepcast::model
