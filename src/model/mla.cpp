// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): queries, and keys and values, are
// projected through low-rank latents.
#include "builder.h"

namespace stepcast::model {
namespace {

// A gate on the core's result from a product of its own (nemo-automodel 0.7.0,
// components/models/kimi_k3/model.py:561).
Node add_output_gate(Builder& b, Node from, const Tensor& input, Node core, std::int64_t width,
                     Tensor& output) {
  const Node gate = add_linear(b,
                               {"attention_gate_projection",
                                Module::attention,
                                TensorRole::column,
                                {b.tokens, width, b.hidden, 1},
                                0,
                                b.element,
                                1},
                               from, input);
  const Node gated = add_gate(b, "attention_gate", width, core, output);
  b.graph.edges.emplace_back(gate, gated);
  b.narrow_output.reset();
  return gated;
}

// A projection to a latent, or its norm, where each tensor rank makes all of it (torchtitan 0.2.2,
// models/deepseek_v3/infra/parallelize.py:257: NoParallel; the products of several heads read it,
// and their gradients of it are summed ahead of the norm's backward pass).
class Latents {
 public:
  explicit Latents(Builder& b)
      : b_(b),
        whole_(b.style.whole_latents && b.shard.tensor > 1 && b.shard.sequence_parallel),
        first_(static_cast<Node>(b.graph.operators.size())) {}

  std::int64_t rows() const { return whole_ ? b_.tokens : b_.local_tokens; }
  TensorRole down() const { return whole_ ? TensorRole::column : TensorRole::none; }

  // Marks what has been added for these latents.
  void mark() {
    for (auto i = static_cast<std::size_t>(first_); whole_ && i < b_.graph.operators.size(); ++i) {
      Operator& op = b_.graph.operators[i];
      op.repeated = op.name == "q_down" || op.name == "kv_down";
      op.whole_input = op.name == "q_up" || op.name == "kv_up" || op.kind == OpKind::norm;
    }
  }

 private:
  Builder& b_;
  bool whole_;
  Node first_;
};

// Queries of `width`, through a latent of their own if the model has one.
Node add_queries(Builder& b, Node from, const Tensor& input, const Latents& latents,
                 std::int64_t width) {
  const std::int64_t e = b.element;
  const std::int64_t rank = b.model.mla->q_lora_rank;
  if (rank == 0) {
    return add_linear(
        b, {"q", Module::attention, TensorRole::column, {b.tokens, width, b.hidden, 1}, 0, e, 1},
        from, input);
  }
  const std::int64_t rows = latents.rows();
  const Tensor down = b.tensor(rows * rank * e);
  const Tensor normed = b.tensor(rows * rank * e);
  Node node = add_linear(
      b, {"q_down", Module::attention, latents.down(), {rows, rank, b.hidden, 1}, 0, e, 1}, from,
      input);
  node = add_norm(b, "q_norm", Module::attention, rows, rank, norm_width(b.model) * rank, node,
                  down, normed);
  return add_linear(
      b, {"q_up", Module::attention, TensorRole::column, {b.tokens, width, rank, 1}, 0, e, 1}, node,
      normed);
}

}  // namespace

Node add_mla(Builder& b, Node from, const Tensor& input) {
  const job::Mla& mla = *b.model.mla;
  const int heads = b.model.heads / b.shard.tensor;
  const int qk_dim = mla.qk_nope_dim + mla.qk_rope_dim;
  const std::int64_t e = b.element;
  Latents latents(b);
  const std::int64_t rows = latents.rows();  // the down projections and latent norms are replicated
  const std::int64_t q_width = static_cast<std::int64_t>(heads) * qk_dim;
  const std::int64_t kv_up_width = static_cast<std::int64_t>(heads) * (mla.qk_nope_dim + mla.v_dim);
  const std::int64_t out_width = static_cast<std::int64_t>(heads) * mla.v_dim;
  const std::int64_t norm_rows = norm_width(b.model);
  const auto latent = [&](std::int64_t width) { return b.tensor(rows * width * e); };

  const Node query = add_queries(b, from, input, latents, q_width);

  // The latent, and the one rotary key that all heads share.
  const Tensor kv_latent = latent(mla.kv_lora_rank);
  const Tensor kv_normed = latent(mla.kv_lora_rank);
  Node kv = add_linear(b,
                       {"kv_down",
                        Module::attention,
                        latents.down(),
                        {rows, mla.kv_lora_rank + mla.qk_rope_dim, b.hidden, 1},
                        0,
                        e,
                        1},
                       from, input);
  kv = add_norm(b, "kv_norm", Module::attention, rows, mla.kv_lora_rank,
                norm_rows * mla.kv_lora_rank, kv, kv_latent, kv_normed);
  kv = add_linear(b,
                  {"kv_up",
                   Module::attention,
                   TensorRole::column,
                   {b.tokens, kv_up_width, mla.kv_lora_rank, 1},
                   0,
                   e,
                   1},
                  kv, kv_normed);
  latents.mark();
  const bool views =
      b.style.views_values && !b.style.fp8_attention && fuses_core(b, qk_dim, mla.v_dim);
  const Tensor values = b.tensor(views ? b.tokens * kv_up_width * e : 0);
  keep(b.graph.operators[static_cast<std::size_t>(kv)], "output", values);

  // Rotation of the rotary parts. Keys are concatenated from their two parts, of which the rotary
  // one is repeated for each head.
  Tensor qkv = b.tensor(b.tokens * (2 * q_width + (views ? 0 : out_width)) * e);
  qkv.viewed = views ? qkv.bytes + b.tokens * out_width * e : 0;
  Operator rotary = named("rotary", OpKind::rotary, Module::attention);
  const std::int64_t keys = b.tokens * q_width * e;
  const std::int64_t rotated = b.tokens * heads * mla.qk_rope_dim * e;
  moves(rotary, 2 * rotated + 2 * keys, 2 * rotated + 2 * keys, b.style.fused_rotary ? 2 : 8,
        b.style.fused_rotary ? 2 : 8);
  rotary.forward_output = Bytes(qkv.bytes);
  keep(rotary, "output", qkv);
  const Node joined = b.add(std::move(rotary), {query, kv});

  Tensor output = b.tensor(b.tokens * out_width * e);
  Node core = add_core_attention(b, {heads, heads, qk_dim, mla.v_dim}, joined, qkv, output);
  keep(b.graph.operators[static_cast<std::size_t>(core)], "values", values);
  if (b.model.attention_gate) {
    core = add_output_gate(b, from, input, core, out_width, output);
  }
  return add_linear(b,
                    {"out",
                     Module::attention,
                     TensorRole::row,
                     {b.tokens, b.hidden, out_width, 1},
                     b.model.biases.attention_out ? b.hidden : 0,
                     e,
                     1},
                    core, b.narrow_output.value_or(output));
}

}  // namespace stepcast::model
