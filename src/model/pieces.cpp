#include "stepcast/model/pieces.h"

#include "parts.h"

namespace stepcast::model {

OperatorGraph build_piece(Piece piece, const job::Model& model, const Shard& shard,
                          const Style& style) {
  Builder b(model, shard, style);
  const std::int64_t e = b.element;
  const Tensor stream = b.residual_stream();
  switch (piece) {
    case Piece::norm:
      add_norm(b, "norm", Module::mlp, b.local_tokens, b.hidden, norm_width(model) * b.hidden,
               outside, stream, b.residual_stream());
      break;
    case Piece::mlp:
      add_mlp(b, Module::mlp, model.ffn, outside, stream);
      break;
    case Piece::activation: {
      const std::int64_t one = b.tokens * model.ffn * e;
      b.add(activation(b, "activation", Module::mlp, b.tokens, model.ffn, 0,
                       b.tensor(model.gated_mlp ? 2 * one : one), b.tensor(one)),
            {outside});
      break;
    }
    case Piece::rotary: {
      const std::int64_t one = b.tokens * model.head_dim * e;
      b.add(rotary(b, one * model.heads, one * model.kv_heads), {outside});
      break;
    }
    case Piece::loss: {
      const std::int64_t logits = b.tokens * model.vocab;
      b.add(cross_entropy(b, logits, b.tensor(logits * e)), {outside});
      break;
    }
    case Piece::projection_loss:
      add_projection_loss(b, outside, stream);
      break;
    case Piece::experts:
      add_moe(b, outside, stream);
      break;
  }
  return b.finish();
}

}  // namespace stepcast::model
