// Multi-token prediction (DeepSeek-V3, arXiv 2412.19437, section 2.2): norms of the stream and of
// the next tokens' embeddings, side by side through one product of 2 h x h, then a layer and the
// model's own head. The embedding table and the output matrix are the model's: no parameters here.
#include "builder.h"

namespace stepcast::model {

Node add_prediction_input(Builder& b) {
  const std::int64_t e = b.element;
  const std::int64_t bytes = b.local_tokens * b.hidden * e;
  const std::int64_t parameters = norm_width(b.model) * b.hidden;
  const Node words = add_word_embedding(b, "mtp_embedding", true);
  const Node embedding_norm = add_norm(b, "mtp_embedding_norm", Module::head, b.local_tokens,
                                       b.hidden, parameters, words, b.tensor(bytes), b.tensor(0));
  const Node hidden_norm = add_norm(b, "mtp_hidden_norm", Module::head, b.local_tokens, b.hidden,
                                    parameters, outside, b.residual_stream(), b.tensor(0));
  Operator join = named("mtp_concat", OpKind::elementwise, Module::head);
  const Tensor joined = b.tensor(2 * bytes);
  moves(join, 4 * bytes, 4 * bytes, 1, 1);
  join.forward_output = Bytes(joined.bytes);
  const Node side_by_side = b.add(std::move(join), {embedding_norm, hidden_norm});
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

}  // namespace stepcast::model
