// The first stage's input: word (and position) embedding, dropout.
#include <algorithm>

#include "builder.h"

namespace stepcast::model {

Node add_word_embedding(Builder& b, const char* name, bool shared, Node from) {
  const std::int64_t e = b.element;
  const std::int64_t elements = b.tokens * b.hidden;
  const std::int64_t table = ceil_div(b.model.vocab, b.shard.tensor) * b.hidden;
  const bool by_width = b.style.embedding_by_width && b.shard.tensor > 1;
  // Rows of other ranks are set to zero before the sum.
  const bool masked = b.shard.tensor > 1 && !by_width;
  Operator word = named(name, OpKind::embedding, Module::embedding);
  word.tensor = TensorRole::vocab_embedding;
  word.parameters = shared ? 0 : table;
  // The backward pass sets a gradient of the whole table to zero and adds the rows.
  moves(word, (masked ? 4 : 2) * elements * e, 2 * elements * e + table * e, masked ? 5 : 1,
        masked ? 3 : 2);
  word.forward_output = Bytes(elements * e);
  word.backward_temporary = Bytes(table * e);
  if (by_width) {  // gathered parts are joined, of the gradient this rank's part is copied
    word.forward_moved = Bytes(4 * elements * e);
    word.forward_kernels = 2;
    word.backward_kernels += 1;
    word.forward_temporary = Bytes(elements * e);
    word.largest_temporary = Bytes(std::max(elements / b.shard.tensor, table) * e);
  }
  keep(word, "token_ids", b.tensor(8 * b.tokens));
  return b.add(std::move(word), {from});
}

namespace {

// Embeddings that are added to the words': a table with a row for each position or segment.
Node add_rows(Builder& b, const char* name, std::int64_t rows, Node from) {
  const std::int64_t bytes = b.tokens * b.hidden * b.element;
  Operator op = named(name, OpKind::embedding, Module::embedding);
  op.parameters = rows * b.hidden;
  moves(op, 4 * bytes, 2 * bytes + op.parameters * b.element, 2, 2);
  op.forward_output = Bytes(bytes);
  return b.add(std::move(op), {from});
}

// T5's relative position biases: each stack has a table in its first layer, which is expanded to
// the square of scores once and read by all its layers.
Node add_relative(Builder& b, int stacks, Node from) {
  const std::int64_t heads = b.model.heads / b.shard.tensor;
  const std::int64_t square =
      heads * (b.sequence / b.shard.context) * b.sequence * b.element * stacks;
  Operator op = named("relative_positions", OpKind::embedding, Module::embedding);
  op.parameters = stacks * heads * b.model.relative_buckets;
  moves(op, 2 * square, 2 * square, 2 * stacks, 2 * stacks);
  op.forward_output = Bytes(square);
  return b.add(std::move(op), {from});
}

}  // namespace

// The booleans of attention's mask, which the model makes behind its word embedding and hands to
// every layer: a comparison for the causal part, one for a window, and their product (transformers
// 5.23.0, masking_utils.py:547). Without checkpoints they are gone where the model ends, which is
// not counted.
void add_mask(Builder& b, const job::Model& model, Operator& word) {
  const std::vector<LayerKind> kinds = layer_kinds(model);
  if (std::none_of(kinds.begin(), kinds.end(), [&](const LayerKind& kind) {
        const HeadShape heads = head_shape(model, kind);
        return takes_mask(b, kind, heads.qk_dim, heads.v_dim);
      })) {
    return;
  }
  const std::int64_t booleans = b.sequence * b.sequence;
  constexpr int kKernels = 3;
  word.forward_moved += Bytes((kKernels + 2) * booleans);
  word.forward_kernels += kKernels;
  if (b.style.holds_masks) {
    keep(word, "attention_mask", b.tensor(booleans));
  }
}

OperatorGraph build_embedding(const job::Model& model, const Shard& shard, const Style& style) {
  const Style own = of_ends(style);
  Builder b(model, shard, own);
  const std::int64_t e = b.element;
  const std::int64_t local = b.local_tokens * b.hidden;
  const bool both = model.encoder_layers > 0 && model.encoder_layers < model.layers;
  Node node = add_word_embedding(b, "word_embedding", false, outside);
  add_mask(b, model, b.graph.operators.back());
  if (both) {  // the encoder's tokens use the same table
    LayerKind kind;
    kind.encoder = true;
    Builder encoder(model, shard, style, kind);
    add_word_embedding(encoder, "encoder_embedding", true);
    Operator op = encoder.graph.operators.back();
    op.saved.clear();
    keep(op, "token_ids", b.tensor(8 * encoder.tokens));
    node = b.add(std::move(op), {node});
  }
  if (model.positions == job::Positions::learned) {
    node = add_rows(b, "position_embedding", model.max_positions, node);
  }
  if (model.token_types > 0) {
    node = add_rows(b, "token_type_embedding", model.token_types, node);
  }
  if (model.positions == job::Positions::relative) {
    node = add_relative(b, both ? 2 : 1, node);
  }
  if (model.embedding_norm) {
    node = add_norm(b, "embedding_norm", Module::embedding, b.local_tokens, b.hidden,
                    norm_width(model) * b.hidden, node, b.residual_stream(), b.residual_stream());
  }
  if (model.dropout > 0) {
    Operator dropout = named("embedding_dropout", OpKind::dropout, Module::embedding);
    moves(dropout, 2 * local * e + local, 2 * local * e + local, 1, 1);
    dropout.forward_output = Bytes(local * e);
    keep(dropout, "mask", b.tensor(local));
    node = b.add(std::move(dropout), {node});
  }
  if (model.layer_embedding) {
    node = add_layer_tables(b, node);
  }
  if (model.hyper_connections) {
    add_streams_start(b, node);
  }
  return b.finish();
}

}  // namespace stepcast::model
