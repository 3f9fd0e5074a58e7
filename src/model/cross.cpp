// Cross-attention of an encoder-decoder model (T5): queries of the decoder's tokens, keys and
// values of the encoder's.
#include "builder.h"

namespace stepcast::model {

Node add_cross(Builder& b, Node from, const Tensor& input) {
  const job::Model& m = b.model;
  const HeadShape all = head_shape(m, b.kind);
  const int heads = all.heads / b.shard.tensor;
  const int kv_heads = all.kv_heads / b.shard.tensor;
  const std::int64_t e = b.element;
  const std::int64_t q_width = static_cast<std::int64_t>(heads) * all.qk_dim;
  const std::int64_t kv_width = static_cast<std::int64_t>(kv_heads) * (all.qk_dim + all.v_dim);
  const std::int64_t out_width = static_cast<std::int64_t>(heads) * all.v_dim;

  AttentionShape shape;
  shape.sequences = b.shard.sequences;
  shape.query_length = b.sequence / b.shard.context;
  shape.key_length = encoder_sequence(m, b.shard.sequence_length);
  shape.heads = heads;
  shape.kv_heads = kv_heads;
  shape.qk_dim = all.qk_dim;
  shape.v_dim = all.v_dim;
  shape.causal = false;
  const std::int64_t memory_tokens = shape.sequences * shape.key_length / b.shard.context;
  const std::int64_t memory_local =
      b.shard.sequence_parallel ? memory_tokens / b.shard.tensor : memory_tokens;

  // One tensor for the queries and for the keys and values that the core reads.
  const Tensor qkv = b.tensor((b.tokens * q_width + memory_tokens * kv_width) * e);
  Operator query = linear({"cross_q",
                           Module::attention,
                           TensorRole::column,
                           {b.tokens, q_width, b.hidden, 1},
                           m.biases.qkv ? q_width : 0,
                           e,
                           1});
  keep(query, "input", input);
  keep(query, "output", qkv);
  const Node asked = b.add(std::move(query), {from});
  Operator memory = linear({"cross_kv",
                            Module::attention,
                            TensorRole::column,
                            {memory_tokens, kv_width, b.hidden, 1},
                            m.biases.qkv ? kv_width : 0,
                            e,
                            b.fused_projection() ? 1 : 2});
  keep(memory, "input", b.tensor(memory_local * b.hidden * e));
  const Node made = b.add(std::move(memory), {asked});

  const Tensor output = b.tensor(b.tokens * out_width * e);
  const Node core = add_core(b, shape, made, qkv, output);
  return add_linear(b,
                    {"cross_out",
                     Module::attention,
                     TensorRole::row,
                     {b.tokens, b.hidden, out_width, 1},
                     m.biases.attention_out ? b.hidden : 0,
                     e,
                     1},
                    core, output);
}

}  // namespace stepcast::model
