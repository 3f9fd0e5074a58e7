// Single operators and blocks outside a layer, as operator-level measurements have them.
#pragma once

#include "stepcast/model/operators.h"

namespace stepcast::model {

enum class Piece {
  norm,             // rows of Model::hidden
  mlp,              // both linears and the activation between them, Model::ffn wide
  activation,       // alone, on rows of Model::ffn (twice that where it is gated)
  rotary,           // on the queries and keys of Model::heads and kv_heads
  loss,             // on logits of Model::vocab
  projection_loss,  // and the output projection before it
  experts,          // a mixture of experts with its router
};

// Its operators on the tokens of `shard`, checked as every graph is.
OperatorGraph build_piece(Piece piece, const job::Model& model, const Shard& shard, const Style& style);

}  // namespace stepcast::model
