// Mixture of experts: router, dispatch, the local experts as grouped GEMMs, combine; shared experts
// beside them.
//
// LAW  each token of a rank is routed to k experts; balanced routing gives every local expert the
//      same number of rows. With `expert_tensor` ranks on an expert's weights, each of them
//      computes on the rows of all of them.
#include <algorithm>

#include "builder.h"
#include "expert_rows.h"
#include "stepcast/model/experts.h"

namespace stepcast::model {
namespace {

// What a router with a norm of its own reads: a norm without weights, times a weight of each
// channel and a number (transformers 5.24.0, models/gemma4/modeling_gemma4.py:1307; Megatron-Bridge
// 0.6.2, models/gemma/modeling_gemma4.py:1386). The weight of each expert's share is counted here
// too.
Stream add_router_norm(Builder& b, const job::Moe& moe, const Stream& stream) {
  const std::int64_t elements = b.local_tokens * b.hidden;
  const std::int64_t one = elements * b.element;
  Operator op = named("router_norm", OpKind::norm, Module::moe);
  op.parameters = b.hidden + moe.experts;
  describe_plain_norm(b, op, elements, stream.tensor);
  if (!b.style.compiled) {
    // Forward two products. Backward that with the number, both gradients of the other and the sum
    // of one over rows.
    op.forward_moved += Bytes(2 * 2 * one);
    op.backward_moved += Bytes(2 * one + 2 * one + 3 * one + one);
    op.forward_kernels += 2;
    op.backward_kernels += 4;
    keep(op, "normed", b.tensor(one));
  }
  op.forward_output = Bytes(one);
  return {b.add(std::move(op), {stream.node}), b.tensor(one)};
}

// The copy of the tokens in fp32 that a router reads; back, its gradient is cast (torchtitan 0.3.0,
// models/common/moe.py:298: autocast to fp32 around the gate).
Node add_router_cast(Builder& b, std::int64_t rows, Node from) {
  constexpr std::int64_t kSingle = 4;  // bytes of fp32
  const std::int64_t wide = rows * b.hidden * kSingle;
  const std::int64_t both = wide + rows * b.hidden * b.element;
  Operator op = named("router_cast", OpKind::elementwise, Module::moe);
  moves(op, both, both, 1, 1);
  op.forward_output = Bytes(wide);
  return b.add(std::move(op), {from});
}

// A router of the whole sequence gathers it, as products of a tensor rank's columns do.
Node add_router(Builder& b, const job::Moe& moe, Node from, const Tensor& input) {
  const bool whole = b.style.routing.whole_sequence;
  const std::int64_t rows = whole ? b.tokens : b.local_tokens;
  Operator op = named("router", OpKind::router, Module::moe);
  op.tensor = whole ? TensorRole::column : TensorRole::none;
  op.gemm = Gemm{rows, moe.experts, b.hidden, 1};
  op.forward = op.input_grad = op.weight_grad =
      Flops(2.0 * static_cast<double>(rows) * static_cast<double>(moe.experts) *
            static_cast<double>(b.hidden));
  op.parameters = moe.experts * b.hidden + (moe.router_bias && !b.kind.hashed ? moe.experts : 0);
  const std::int64_t scores = 4 * rows * moe.experts;  // fp32
  const std::int64_t product = rows * b.hidden * b.element + op.parameters * b.element + scores;
  moves(op, product, 2 * product, 1, 2);
  op.forward_output = Bytes(scores);
  const bool wide = b.style.routing.wide_router && !b.style.compiled;
  keep(op, "input", wide ? b.tensor(4 * rows * b.hidden) : input);
  if (wide) {
    from = add_router_cast(b, rows, from);
  }
  const Node logits = b.add(std::move(op), {from});

  // Softmax, top-k, probabilities scattered to the routing map, tokens counted by expert; and the
  // backward pass of these.
  // Where a table names the experts (transformers 5.24.0,
  // models/deepseek_v4/modeling_deepseek_v4.py:1098, DeepseekV4HashRouter), no scores are compared.
  Operator choose = named(b.kind.hashed ? "hash" : "top_k", OpKind::softmax, Module::moe);
  if (b.kind.hashed) {
    constexpr std::int64_t kNumber = 8;  // bytes of an expert's number in the table
    moves(choose, 5 * scores + 2 * kNumber * rows * moe.topk, 5 * scores, 7, 5);
  } else {
    moves(choose, 7 * scores, 5 * scores, 7, 5);
  }
  choose.expert = ExpertRole::choose;
  choose.forward_output = Bytes(scores);
  keep(choose, "probabilities", b.tensor(scores));
  return b.add(std::move(choose), {logits});
}

// The experts on the rows that reached this rank, between dispatch and combine.
class Experts {
 public:
  Experts(Builder& b, const ExpertRows& rows, Node from) : b_(b), rows_(rows), node_(from) {}

  Node add() {
    if (b_.style.routing.pads) {
      elementwise("pad", 2.0 * static_cast<double>(row_bytes_),
                  2.0 * static_cast<double>(row_bytes_), 1, 1, row_bytes_);
    }
    node_ = linear_of_experts("expert_fc1", fc1_width_, b_.routed, fc1_bias_, received_);
    if (biases_apart_ && b_.model.gated_mlp) {
      add_clamps();
    }
    if (biases_gathered_) {
      add_gathered_bias("expert_fc1_bias", fc1_output_.bytes, false);
    }
    add_activation();
    node_ = linear_of_experts("expert_fc2", b_.routed, width_, fc2_bias_, fc2_input_);
    if (b_.style.routing.joins_experts && local_ > 1) {
      // Results of experts that run one by one are joined; back, each reads its part (Megatron-LM
      // core 0.16.1, transformer/moe/experts.py:925, SequentialMLP).
      elementwise("expert_join", 2.0 * static_cast<double>(row_bytes_), 0, 1, 0, row_bytes_);
      b_.graph.operators.back().gradient = Operator::Gradient::handed_on;
    }
    if (biases_in_product_) {
      // pytorch/triton/grouped_dbias_dscales.py: gradients of a product's biases, and of the
      // weights with the second's, read the gradient of its result.
      elementwise("expert_bias", 0, static_cast<double>(row_bytes_ + fc1_output_.bytes), 0, 2,
                  row_bytes_);
    }
    if (biases_apart_) {
      add_biases();
    }
    if (biases_gathered_) {
      add_gathered_bias("expert_fc2_bias", row_bytes_, b_.style.routing.weighted_inside);
    }
    if (b_.style.routing.pads) {
      elementwise("unpad", 2.0 * static_cast<double>(row_bytes_),
                  2.0 * static_cast<double>(row_bytes_), 1, 1, row_bytes_);
    }
    return node_;
  }

 private:
  Node linear_of_experts(const char* name, std::int64_t n, std::int64_t k, std::int64_t bias,
                         const Tensor& read) {
    const std::int64_t rows_each = std::max<std::int64_t>(1, ceil_div(rows_.computed, local_));
    Operator op =
        linear({name, Module::moe, TensorRole::none, {rows_each, n, k, local_}, bias, e_, 1});
    op.kind = OpKind::grouped_gemm;
    // FLOPs of the rows as they are, not rounded up to the same whole number for each expert.
    op.forward = op.input_grad = op.weight_grad =
        Flops(2.0 * static_cast<double>(rows_.computed) * static_cast<double>(n) *
              static_cast<double>(k));
    op.forward_output = Bytes(rows_.computed * n * e_);
    op.expert_parameters = true;
    keep(op, "input", read);
    return b_.add(std::move(op), {node_});
  }

  void elementwise(const char* name, double forward, double backward, int forward_kernels,
                   int backward_kernels, std::int64_t bytes, SingleElements forward_singles = {},
                   SingleElements backward_singles = {}) {
    Operator op = named(name, OpKind::elementwise, Module::moe);
    op.forward_singles = forward_singles;
    op.backward_singles = backward_singles;
    moves(op, static_cast<std::int64_t>(forward), static_cast<std::int64_t>(backward),
          forward_kernels, backward_kernels);
    op.forward_output = Bytes(bytes);
    node_ = b_.add(std::move(op), {node_});
  }

  // Gated experts with biases are those of gpt-oss. Their halves are clamped and concatenated again
  // before the fused activation (Megatron-LM core 0.16, fusions/fused_bias_geglu.py:
  // weighted_bias_quick_geglu_impl). Both clamps and their backward passes read halves of rows.
  void add_clamps() {
    const auto one = static_cast<double>(fc1_output_.bytes);
    const std::int64_t elements = fc1_output_.bytes / e_;
    elementwise("expert_clamp", 4 * one, 5 * one, 3, 5, fc1_output_.bytes,
                {elements, 2 * fc1_output_.bytes}, {elements, 3 * fc1_output_.bytes});
  }

  // The fused activation of gated experts weights the rows too. Any other one is followed by a
  // product in fp32, which keeps what it reads (Megatron-LM core 0.16.1,
  // transformer/moe/experts.py:733).
  void add_activation() {
    const bool fused = b_.model.gated_mlp && (b_.style.fused_bias_activation || b_.style.compiled);
    const bool weights_apart = b_.style.routing.weighted_inside && !fused;
    const Tensor activated = weights_apart ? b_.tensor(rows_.computed * width_ * e_) : fc2_input_;
    node_ = b_.add(activation(b_, "expert_act", Module::moe, rows_.computed, width_, fc1_bias_,
                              fc1_output_, activated),
                   {node_});
    if (weights_apart) {
      add_weights(activated);
    }
    if (biases_in_product_) {
      // Transformer Engine 2.16, pytorch/ops/basic/swiglu.py, _ScaledGLU: rows are weighted behind
      // the activation. Backward: the weighted gradient, the activation once more, its product with
      // the gradient.
      const auto one = static_cast<double>(fc2_input_.bytes);
      elementwise("expert_weigh", 2 * one, (2 + 3 + 2) * one, 1, 3, fc2_input_.bytes);
    }
  }

  void add_weights(const Tensor& activated) {
    constexpr std::int64_t kSingle = 4;  // bytes of fp32
    const std::int64_t elements = rows_.computed * width_;
    Operator weigh = named("expert_weigh", OpKind::elementwise, Module::moe);
    // Forward: the product and its cast. Backward: the gradient's cast, both products, the sum over
    // a row, and the cast of the activation's gradient.
    moves(weigh, elements * (e_ + kSingle + kSingle + e_),
          elements * (e_ + kSingle + 2 * kSingle + kSingle + e_ + kSingle + kSingle + kSingle + e_),
          2, 5);
    weigh.forward_output = Bytes(fc2_input_.bytes);
    weigh.forward_temporary = Bytes(elements * kSingle);
    weigh.backward_temporary = Bytes(elements * kSingle);
    keep(weigh, "input", activated);
    keep(weigh, "probabilities", b_.tensor(rows_.computed * kSingle));
    node_ = b_.add(std::move(weigh), {node_});
  }

  // Bytes per element. Forward: the weighted bias is written in fp32, added, concatenated and cast
  // back. Backward: a cast, both gradients of the sum, two products and sums for the gradients of
  // bias and weight. A bias of a row times a weight of a column, the sum of two formats and both
  // products of the backward pass are taken one by one.
  void add_biases() {
    const std::int64_t count = rows_.computed * b_.routed;
    const auto elements = static_cast<double>(count);
    elementwise("expert_bias", elements * (4 + 10 + 8 + 6), elements * (6 + 6 + 4 + 12 + 12),
                2 * local_ + 2, 5 * local_ + 2, row_bytes_, {2 * count, (4 + 10) * count},
                {2 * count, (4 + 12) * count});
  }

  // nemo-automodel 0.7.0, components/moe/experts.py:679, _apply_bias. A few rows: the biases of all
  // are written, weighted in fp32 where rows are weighted inside, added and cast back. Many rows,
  // unweighted (:552, _ChunkedBiasAdd): pieces of 4,096 rows of the table are written, added and
  // copied to the result; weighted: one kernel of Triton. Backward: the bias' gradient reads that
  // of the result, once more for the weights' gradient; of a few weighted rows casts and products
  // stand between. The tables themselves stay in the cache.
  void add_gathered_bias(const char* name, std::int64_t bytes, bool weighted) {
    constexpr std::int64_t kPiece = 4096;  // _BIAS_CHUNK_ROWS
    constexpr std::int64_t kMany = 12288;  // _BIAS_CHUNK_THRESHOLD
    constexpr int kLists = 2;  // arange and repeat_interleave of experts; sums of their counts
    const auto one = static_cast<double>(bytes);
    const auto wide = one / static_cast<double>(e_) * 4;  // fp32
    const auto pieces = static_cast<int>(ceil_div(rows_.computed, kPiece));
    if (rows_.computed > kMany) {
      const double moved = weighted ? 2 * one : 6 * one;
      elementwise(name, moved, weighted ? 2 * one : one, (weighted ? 1 : 3 * pieces) + kLists,
                  (weighted ? 2 : 1) + kLists, bytes);
    } else if (weighted) {
      elementwise(name, (wide + 2 * wide) + (one + 2 * wide) + (wide + one),
                  (one + wide) + wide + 2 * wide + 2 * wide, 4, 4 + kLists, bytes);
    } else {
      elementwise(name, 4 * one, one, 2, 1 + kLists, bytes);
    }
  }

  Builder& b_;
  const ExpertRows& rows_;
  Node node_;
  const job::Moe& moe_ = *b_.model.moe;
  const std::int64_t e_ = b_.element;
  const int local_ = moe_.experts / b_.shard.expert;
  const std::int64_t width_ = moe_.ffn / b_.shard.expert_tensor;
  const std::int64_t fc1_width_ = (b_.model.gated_mlp ? 2 : 1) * width_;
  const std::int64_t fc1_bias_ = b_.model.biases.mlp ? local_ * fc1_width_ : 0;
  const std::int64_t fc2_bias_ = b_.model.biases.mlp ? local_ * b_.routed : 0;
  const std::int64_t row_bytes_ = rows_.computed * b_.routed * e_;
  // Tensors are numbered in this order.
  const Tensor received_ = b_.tensor(rows_.computed * b_.routed * e_);
  const Tensor fc1_output_ = b_.tensor(rows_.computed * fc1_width_ * e_);
  const Tensor fc2_input_ = b_.tensor(rows_.computed * width_ * e_);
  const bool biases_apart_ = b_.style.routing.biases_apart && fc2_bias_ > 0;
  const bool biases_gathered_ = b_.style.routing.biases_gathered && fc2_bias_ > 0;
  const bool biases_in_product_ =
      b_.style.routing.biases_in_product && fc2_bias_ > 0 && b_.model.gated_mlp;
};

OpKind permute_kind(const Builder& b) {
  return b.style.routing.fused_permute ? OpKind::fused_permute : OpKind::permute;
}

// A memory-bound operator behind `from`, whose result has so many bytes.
Node add_moved(Builder& b, const char* name, OpKind kind, std::int64_t forward,
               std::int64_t backward, int forward_kernels, int backward_kernels,
               std::int64_t result, Node from) {
  Operator op = named(name, kind, Module::moe);
  moves(op, forward, backward, forward_kernels, backward_kernels);
  op.forward_output = Bytes(result);
  return b.add(std::move(op), {from});
}

// Sorts rows that came from several ranks, ordered by rank, by expert; or `back`.
Node add_sort(Builder& b, std::int64_t rows, bool back, Node from) {
  const char* const name = back ? "sort_by_rank" : "sort_by_expert";
  const std::int64_t bytes = rows * b.routed * b.element;
  if (!b.style.routing.indexed || back) {  // rows put into their places, or taken
    return add_moved(b, name, permute_kind(b), 2 * bytes, 2 * bytes, 1, 1, bytes, from);
  }
  // torchtitan 0.2.2, models/moe/utils.py: _permute. A copy with a row of padding, of which rows
  // are taken. Backward: the gradients of the two linears that read the rows are summed; zeros, to
  // which rows are added.
  const Node padded =
      add_moved(b, "padded_copy", OpKind::elementwise, 2 * bytes, 3 * bytes, 1, 1, bytes, from);
  return add_moved(b, name, permute_kind(b), 2 * bytes, (1 + 3) * bytes, 1, 2, bytes, padded);
}

// Rows in their tokens' places are summed in fp32 with the router's weights (torchtitan 0.2.2,
// models/moe/moe.py: MoE.forward).
Node add_weighted_sum(Builder& b, std::int64_t rows, std::int64_t tokens, Node from) {
  constexpr std::int64_t kSingle = 4;  // bytes of fp32
  const std::int64_t row = b.routed * b.element;
  const std::int64_t single = b.routed * kSingle;
  Operator op = named("weighted_sum", OpKind::elementwise, Module::moe);
  // Forward: the zeros into which rows were put, a cast, the product, its cast. Backward: a cast,
  // both gradients of the product, a cast; and, where experts' rows were put into padded places
  // (utils.py: _unpermute), zeros and a copy into them.
  moves(
      op, rows * (row + row + single + single) + tokens * (single + single + row),
      rows * (single + single + single + row + 3 * row) + tokens * (row + single + single + single),
      4, 6);
  op.forward_output = Bytes(tokens * row);
  op.forward_temporary = Bytes(tokens * single);
  op.backward_temporary = Bytes(rows * single);
  keep(op, "expert_output", b.tensor(rows * single));
  return b.add(std::move(op), {from});
}

// Rows of experts' results that come back to their tokens.
struct Returning {
  std::int64_t copies = 0, tokens = 0;     // rows before and behind the sum
  std::int64_t forward = 0, backward = 0;  // bytes moved, but for weights
  int kernels = 0;                         // of a pass
};

// Rows that came back are copied to fp32, weighed there and, cast again, summed per token
// (torchtitan 0.3.0, models/common/token_dispatcher.py:617). Backward of the sum: the gradient is
// gathered and cast; its products with the weights and with the rows, whose sums over each row are
// the weights'.
Node add_wide_unpermute(Builder& b, const Returning& r, Node from, Node routed) {
  constexpr std::int64_t kSingle = 4;  // bytes of fp32
  const std::int64_t row = r.copies * b.routed * b.element;
  const std::int64_t single = r.copies * b.routed * kSingle;
  Operator cast = named("weighing_cast", OpKind::elementwise, Module::moe);
  cast.expert = ExpertRole::combine;
  moves(cast, row + single, single + row, 1, 1);
  cast.forward_output = Bytes(single);
  from = b.add(std::move(cast), {from});
  Operator unpermute = named("unpermute", permute_kind(b), Module::moe);
  moves(unpermute, 2 * single + (single + row) + r.forward,
        r.backward + (row + single) + 2 * single + 4 * single, r.kernels + 2, r.kernels + 4);
  unpermute.forward_output = Bytes(r.tokens * b.routed * b.element);
  unpermute.forward_temporary = Bytes(single + row);
  unpermute.backward_temporary = Bytes(2 * single);
  unpermute.largest_temporary = Bytes(single);
  keep(unpermute, "expert_output", b.tensor(single));
  return b.add(std::move(unpermute), {from, routed});
}

// Rows come back and are summed per token. Where they are weighted here, the gradient of the
// probabilities reads them.
Node add_unpermute(Builder& b, const Returning& r, Node from, Node routed) {
  const std::int64_t returned = r.copies * b.routed * b.element;
  const bool weighs = !b.style.routing.weighted_inside;
  if (weighs && b.style.routing.wide_weighing && !b.style.compiled) {
    return add_wide_unpermute(b, r, from, routed);
  }
  Operator unpermute = named("unpermute", permute_kind(b), Module::moe);
  unpermute.expert = ExpertRole::combine;
  if (weighs && b.style.routing.indexed) {
    moves(unpermute, 2 * returned, 2 * returned, 1, 1);
    unpermute.forward_output = Bytes(returned);
    return add_weighted_sum(b, r.copies, r.tokens, b.add(std::move(unpermute), {from, routed}));
  }
  moves(unpermute, r.forward, r.backward > 0 && weighs ? r.backward + returned : r.backward,
        r.kernels, r.kernels + (weighs && r.kernels == 2 ? 1 : 0));
  unpermute.forward_output = Bytes(r.tokens * b.routed * b.element);
  if (weighs) {
    keep(unpermute, "expert_output", b.tensor(returned));
  }
  const Routing& routing = b.style.routing;
  if (weighs && !routing.grouped && !routing.joins_experts && !routing.one_hot) {
    // Experts that run one by one add weighted rows to the tokens in place, by an operator that
    // keeps these (transformers 4.57.6, models/qwen2_moe/modeling_qwen2_moe.py:641: index_add_).
    keep(unpermute, "weighted_rows", b.tensor(returned));
  }
  if (b.style.routing.weighs_rows && r.kernels == 2) {
    // Weighted rows ahead of the sum; back, their gradient and the product that the probabilities'
    // gradient sums (megatron-core 0.11.0, transformer/moe/moe_utils.py: unpermute).
    unpermute.forward_temporary = Bytes(returned);
    unpermute.backward_temporary = Bytes(2 * returned);
    unpermute.largest_temporary = Bytes(returned);
  }
  return b.add(std::move(unpermute), {from, routed});
}

// Experts in a latent space (megatron-core 0.16.1, transformer/moe/moe_layer.py:170,
// fc1_latent_proj and fc2_latent_proj): each tensor rank projects its own tokens with whole
// weights.
Node add_latent(Builder& b, const char* name, std::int64_t n, std::int64_t k, Node from,
                const Tensor& input) {
  return add_linear(b,
                    {name,
                     Module::moe,
                     TensorRole::none,
                     {b.local_tokens, n, k, 1},
                     b.model.biases.mlp ? n : 0,
                     b.element,
                     1},
                    from, input);
}

Node add_latent_down(Builder& b, const job::Moe& moe, Node from, const Tensor& input) {
  return moe.latent > 0 ? add_latent(b, "latent_down", moe.latent, b.hidden, from, input) : from;
}

Node add_latent_up(Builder& b, const job::Moe& moe, Node from) {
  if (moe.latent == 0) {
    return from;
  }
  Tensor combined = b.tensor(b.local_tokens * moe.latent * b.element);
  if (moe.latent_norm) {  // nemo-automodel 0.7.0, components/models/kimi_k3/model.py:1255
    const Tensor normed = b.tensor(combined.bytes);
    from = add_norm(b, "latent_norm", Module::moe, b.local_tokens, moe.latent,
                    norm_width(b.model) * moe.latent, from, combined, normed);
    combined = normed;
  }
  return add_latent(b, "latent_up", b.hidden, moe.latent, from, combined);
}

// A norm of what one kind of experts returns.
Node add_branch_norm(Builder& b, const char* name, Module module, Node from) {
  return add_norm(b, name, module, b.local_tokens, b.hidden, norm_width(b.model) * b.hidden, from,
                  b.residual_stream(), b.residual_stream());
}

// The sum of what both kinds of experts return.
Node add_sum(Builder& b, const job::Moe& moe, const Tensor& read, Node node, Node shared) {
  Operator sum = named("shared_add", OpKind::elementwise, Module::shared_expert);
  const std::int64_t local = b.local_tokens * b.hidden * b.element;
  moves(sum, 3 * local, 0, 1, 0);
  if (moe.shared_gate) {  // y = routed + sigmoid(x g) shared: a GEMM with one column, a sigmoid, a
                          // scaling
    sum.parameters = b.hidden;
    sum.forward = sum.input_grad = sum.weight_grad =
        Flops(2.0 * static_cast<double>(b.local_tokens) * static_cast<double>(b.hidden));
    moves(sum, 6 * local, 6 * local, 4, 5);
    keep(sum, "gate_input", read);
    keep(sum, "shared_output", b.tensor(local));
  }
  sum.forward_output = Bytes(local);
  return b.add(std::move(sum), {node, shared});
}

// Tokens that the operators around the experts read and write, and their copies: this rank's where
// copies are sent, those of all senders where tokens are.
struct RowsAround {
  std::int64_t tokens = 0, copies = 0;
};

RowsAround rows_around_experts(const Builder& b, const ExpertRows& rows) {
  using Dispatcher = job::MoeRuntime::Dispatcher;
  const Dispatcher dispatcher = b.style.routing.dispatcher;
  if (dispatcher == Dispatcher::allgather) {
    return {rows.gathered, rows.computed};
  }
  return b.shard.expert > 1 && dispatcher != Dispatcher::alltoall
             ? RowsAround{rows.distinct, rows.received}
             : RowsAround{rows.tokens, rows.sent};
}

}  // namespace

Node add_moe(Builder& b, Node from, const Tensor& input) {
  return add_moe(b, {from, input}, {from, input}, {from, input});
}

Node add_moe(Builder& b, const Stream& stream, const Stream& read, const Stream& shared_read) {
  using Dispatcher = job::MoeRuntime::Dispatcher;
  const job::Moe& moe = *b.model.moe;
  const std::int64_t e = b.element;
  const Dispatcher dispatcher = b.style.routing.dispatcher;
  const bool several = b.shard.expert > 1;
  const ExpertRows rows = expert_rows(b.model, b.shard, b.style.routing);
  const auto [tokens, copies] = rows_around_experts(b, rows);
  const bool copies_travel = dispatcher == Dispatcher::alltoall;
  // Each tensor rank puts the rows that it sent into the places of the whole sequence's (torchtitan
  // 0.2.2, models/moe/moe.py:530, distributed/expert_parallel.py:302).
  const bool placed = b.style.routing.whole_sequence && b.style.routing.indexed && copies_travel;
  const std::int64_t places = placed ? std::max(tokens, b.tokens) : tokens;
  const std::int64_t placed_copies = tokens > 0 ? copies * places / tokens : copies;
  // HybridEP's own kernels order rows by expert and sum them (fused permute).
  const bool fused = several && dispatcher == Dispatcher::hybridep;

  const Stream choice = moe.branch_norms ? add_router_norm(b, moe, stream) : stream;
  const Node routed = add_router(b, moe, choice.node, choice.tensor);
  const std::int64_t shared_width =
      moe.shared_experts * (moe.shared_ffn > 0 ? moe.shared_ffn : moe.ffn);
  const bool beside = b.style.routing.shared_beside && shared_width > 0;
  const auto add_shared = [&] {
    return add_mlp(b, Module::shared_expert, shared_width, shared_read.node, shared_read.tensor);
  };
  Node shared = outside;
  if (beside && !copies_travel) {
    shared = add_shared();
  }
  Operator permute = named("permute", permute_kind(b), Module::moe);
  permute.expert = ExpertRole::dispatch;
  const std::int64_t copy = (copies + tokens) * b.routed * e;
  // What travelled in FP8 is laid out in it.
  const std::int64_t laid_out = b.style.routing.fp8_dispatch ? (copies + tokens) * b.routed : copy;
  // One kernel a pass follows a map of rows; index_select and scatter_add come behind the map's.
  const bool mapped = b.style.routing.fused_permute;
  const int kernels = fused ? 0 : mapped ? 1 : 2;
  moves(permute, fused ? 0 : laid_out, fused ? 0 : copy, kernels, kernels);
  // Indexed, rows are added to zeros.
  permute.backward_moved += Bytes(b.style.routing.indexed ? 2 * copies * b.routed * e : 0);
  permute.forward_output = Bytes(copies * b.routed * e);
  keep(permute, "row_map", b.tensor(4 * copies));
  const bool one_hot = b.style.routing.one_hot;
  const bool every = b.style.routing.every_token;
  const bool in_kernels = b.style.routing.fused_experts && moe.latent == 0;
  const OneHot masked = one_hot_of(b, rows);
  Tensor mask;
  const Node narrowed = add_latent_down(b, moe, read.node, read.tensor);
  Node node = in_kernels ? narrowed
              : every    ? add_every_token(b, rows, narrowed, routed)
              : one_hot  ? add_one_hot_dispatch(b, masked, narrowed, routed, mask)
                         : b.add(std::move(permute), {narrowed, routed});
  if (beside && copies_travel) {
    shared = add_shared();
  }

  const int senders = b.shard.expert * (rows.computed > rows.received ? b.shard.expert_tensor : 1);
  const bool sorts =
      dispatcher == Dispatcher::alltoall && senders > 1 && moe.experts > b.shard.expert;
  if (sorts) {
    node = add_sort(b, rows.computed, false, node);
  }
  node = in_kernels ? add_experts_in_kernels(b, rows, {node, read.tensor}, routed)
                    : Experts(b, rows, node).add();
  if (sorts) {
    node = add_sort(b, rows.computed, true, node);
  }

  node = in_kernels ? node
         : every    ? add_sum_of_experts(b, rows, node)
         : one_hot
             ? add_one_hot_combine(b, masked, node, routed, mask)
             : add_unpermute(
                   b, {placed_copies, places, fused ? 0 : copy, fused ? 0 : laid_out, kernels},
                   node, routed);
  // Of a whole sequence each tensor rank has partial sums; shared experts sum theirs behind their
  // own products.
  if (b.style.routing.whole_sequence && moe.shared_experts == 0) {
    b.graph.operators[static_cast<std::size_t>(node)].tensor = TensorRole::row;
  }
  node = add_latent_up(b, moe, node);
  if (moe.branch_norms) {
    node = add_branch_norm(b, "experts_post_norm", Module::moe, node);
  }
  if (moe.shared_experts == 0) {
    return node;
  }

  if (!beside) {
    shared = add_shared();
  }
  if (moe.branch_norms) {
    shared = add_branch_norm(b, "shared_post_norm", Module::shared_expert, shared);
  }
  return add_sum(b, moe, shared_read.tensor, node, shared);
}

}  // namespace stepcast::model
