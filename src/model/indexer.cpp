// Sparse attention (DeepSeek-V3.2-Exp, "Boosting Long-Context Efficiency with DeepSeek Sparse
// Attention", section 2.1): an indexer of few narrow heads scores all keys, and each query attends
// to the best `topk`. The indexer is whole on every tensor-parallel rank. Its own loss (against the
// attention's scores) is not modelled.
//
// In blocks (MiniMax-M3; transformers 5.24.0, models/minimax_m3_vl/modeling_minimax_m3_vl.py:493,
// MiniMaxM3VLIndexer) each of its heads takes the best score of each block of keys, and chooses
// blocks for its own group of query heads: no weights of heads, and queries are normed like keys.
//
// LAW  2 H_i d_i FLOPs for each score of the causal square; the core then computes as many scores
// as with a
//      window of `topk` keys.
#include <algorithm>

#include "builder.h"

namespace stepcast::model {

Node add_indexer(Builder& b, Node from, const Tensor& input) {
  const job::Indexer& x = *b.model.indexer;
  const std::int64_t e = b.element;
  const std::int64_t rows = b.local_tokens;
  const std::int64_t q_width = static_cast<std::int64_t>(x.heads) * x.dim;
  const int rank = b.model.mla ? b.model.mla->q_lora_rank : 0;
  const auto linear_of = [&](const char* name, std::int64_t n, std::int64_t k) {
    return linear({name, Module::attention, TensorRole::none, {rows, n, k, 1}, 0, e, 1});
  };
  // Queries come from the latent that the attention keeps, keys and weights from the residual
  // stream.
  Operator query = linear_of("index_q", q_width, rank > 0 ? rank : b.hidden);
  if (rank == 0) {
    keep(query, "input", input);
  }
  const Tensor queries = b.tensor(rows * q_width * e);
  const Tensor keys = b.tensor(rows * x.dim * e);
  const Tensor normed = b.tensor(rows * x.dim * e);
  Node asked = b.add(std::move(query), {from});
  const bool blocks = x.block > 1;
  Tensor scored = queries;  // that the scores read
  if (blocks) {
    scored = b.tensor(queries.bytes);
    Operator norm = named("index_q_norm", OpKind::norm, Module::attention);
    norm.parameters = x.dim;
    moves(norm, 2 * queries.bytes, 3 * queries.bytes, 1, 2);
    norm.forward_output = Bytes(scored.bytes);
    keep(norm, "input", queries);
    asked = b.add(std::move(norm), {asked});
  }
  Operator key = linear_of("index_k", x.dim, b.hidden);
  keep(key, "input", input);
  Node made = b.add(std::move(key), {asked});
  Operator norm = named("index_k_norm", OpKind::norm, Module::attention);
  norm.parameters = (blocks ? 1 : 2) * static_cast<std::int64_t>(x.dim);
  moves(norm, 2 * keys.bytes, 3 * keys.bytes, 1, 2);
  norm.forward_output = Bytes(normed.bytes);
  keep(norm, "input", keys);
  made = b.add(std::move(norm), {made});
  if (!blocks) {
    Operator weights = linear_of("index_weights", x.heads, b.hidden);
    keep(weights, "input", input);
    made = b.add(std::move(weights), {made});
  }

  // One kernel computes the scores of all heads, rectifies, weights and sums them, or takes the
  // largest of each block: an attention without values.
  AttentionShape shape;
  shape.sequences = b.shard.sequences;
  shape.query_length = b.sequence / b.shard.context;
  shape.key_length = b.sequence;
  shape.heads = x.heads;
  shape.kv_heads = 1;
  shape.qk_dim = x.dim;
  shape.v_dim = 0;
  const double pairs = static_cast<double>(shape.sequences) * attention_pairs(shape);
  const auto score_bytes =
      static_cast<std::int64_t>(4 * pairs * (blocks ? x.heads : 1) / std::max(x.block, 1));
  const std::int64_t chosen =
      4 * b.tokens * std::min(x.topk, b.sequence) * (blocks ? x.heads : 1) / std::max(x.block, 1);
  Operator scores = named("index_scores", OpKind::fused_attention, Module::attention);
  scores.attention = shape;
  scores.forward = Flops(2.0 * pairs * static_cast<double>(q_width));
  scores.input_grad = Flops(2.0 * scores.forward.count());
  moves(scores, queries.bytes + keys.bytes + score_bytes, 2 * (queries.bytes + keys.bytes), 1, 2);
  scores.forward_output = Bytes(score_bytes);
  keep(scores, "queries", scored);
  keep(scores, "keys", normed);
  made = b.add(std::move(scores), {made});

  Operator choose = named("index_top_k", OpKind::softmax, Module::attention);
  moves(choose, 2 * score_bytes, 0, 2, 0);
  choose.forward_output = Bytes(chosen);
  keep(choose, "chosen", b.tensor(chosen));
  return b.add(std::move(choose), {made});
}

}  // namespace stepcast::model
