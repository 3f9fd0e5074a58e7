// Single operators and blocks outside a layer, for comparison with measurements of operators.
#pragma once

#include "stepcast/model/operators.h"

namespace stepcast::model {

enum class Piece {
  norm,             // rows of Model::hidden
  mlp,              // both linears and the activation between them, Model::ffn wide
  activation,       // on rows of Model::ffn (twice that where it is gated)
  rotary,           // on the queries and keys of Model::heads and kv_heads
  loss,             // on logits of Model::vocab
  projection_loss,  // the output projection and the loss
  experts,          // a mixture of experts with its router
};

// The operators of a piece on the tokens of `shard`. The graph is checked like every other.
OperatorGraph build_piece(Piece piece, const job::Model& model, const Shard& shard, const Style& style);

}  // namespace stepcast::model
