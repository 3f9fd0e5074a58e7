// Multi-token prediction (DeepSeek-V3, arXiv 2412.19437, section 2.2): norms of the stream and of
// the next tokens' embeddings, side by side through one product of 2 h x h, then a layer and the
// model's own head. The embedding table and the output matrix are the model's: no parameters here.
#include "builder.h"

namespace stepcast::model {
namespace {

// Several residual streams are each normed and projected, and the tokens' projection is added to
// each (nemo-automodel 0.7.0, components/models/deepseek_v4/mtp.py:153).
Node add_to_streams(Builder& b, Node words) {
  const std::int64_t n = stream_count(b.model);
  const std::int64_t e = b.element;
  const std::int64_t bytes = b.local_tokens * b.hidden * e;
  const auto project = [&](const char* name, std::int64_t rows, Node from) {
    return add_linear(
        b, {name, Module::head, TensorRole::none, {rows, b.hidden, b.hidden, 1}, 0, e, 1}, from,
        b.tensor(rows * b.hidden * e));
  };
  const Node projected = project("mtp_embedding_projection", b.local_tokens, words);
  const Node normed =
      add_norm(b, "mtp_hidden_norm", Module::head, n * b.local_tokens, b.hidden,
               norm_width(b.model) * b.hidden, outside, streams_of(b), streams_of(b));
  const Node streams = project("mtp_projection", n * b.local_tokens, normed);
  Operator sum = named("mtp_sum", OpKind::elementwise, Module::head);
  moves(sum, (2 * n + 1) * bytes, n * bytes + bytes, 1, 1);
  sum.forward_output = Bytes(n * bytes);
  return b.add(std::move(sum), {projected, streams});
}

}  // namespace

Node add_prediction_input(Builder& b) {
  const std::int64_t e = b.element;
  const std::int64_t bytes = b.local_tokens * b.hidden * e;
  const std::int64_t parameters = norm_width(b.model) * b.hidden;
  const Node words = add_word_embedding(b, "mtp_embedding", true);
  const Node embedding_norm = add_norm(b, "mtp_embedding_norm", Module::head, b.local_tokens,
                                       b.hidden, parameters, words, b.tensor(bytes), b.tensor(0));
  if (b.model.hyper_connections) {
    return add_to_streams(b, embedding_norm);
  }
  const Node hidden_norm = add_norm(b, "mtp_hidden_norm", Module::head, b.local_tokens, b.hidden,
                                    parameters, outside, b.residual_stream(), b.tensor(0));
  Operator join = named("mtp_concat", OpKind::elementwise, Module::head);
  const Tensor joined = b.tensor(2 * bytes);
  moves(join, 4 * bytes, 4 * bytes, 1, 1);
  join.forward_output = Bytes(joined.bytes);
  const Node side_by_side = b.add(std::move(join), {embedding_norm, hidden_norm});
  const int t = b.shard.tensor;
  if (t == 1 || !b.style.divides_prediction) {
    // Its weights are whole on every tensor-parallel rank; under sequence parallelism each rank
    // computes its own tokens.
    return add_linear(b,
                      {"mtp_projection",
                       Module::head,
                       TensorRole::none,
                       {b.local_tokens, b.hidden, 2 * b.hidden, 1},
                       0,
                       e,
                       1},
                      side_by_side, joined);
  }
  // megatron-core 0.16.1, transformer/multi_token_prediction.py:738; 0.19.2, :1139: a column
  // product, whose result is gathered along its width and divided along the sequence.
  const Node part = add_linear(b,
                               {"mtp_projection",
                                Module::head,
                                TensorRole::column,
                                {b.tokens, b.hidden / t, 2 * b.hidden, 1},
                                0,
                                e,
                                1},
                               side_by_side, joined);
  Operator gather = named("mtp_gather", OpKind::elementwise, Module::head);
  gather.tensor = TensorRole::joined;
  const std::int64_t whole = b.tokens * b.hidden * e;
  // What arrives lies rank by rank, and is joined along the width; back, a rank's part is copied.
  moves(gather, 2 * whole, 2 * whole / t, 1, 1);
  gather.forward_output = Bytes(whole);
  gather.forward_temporary = Bytes(whole);
  return b.add(std::move(gather), {part});
}

}  // namespace stepcast::model
