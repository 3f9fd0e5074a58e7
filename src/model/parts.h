// Operators that stand alone outside a layer as well (pieces.cpp).
#pragma once

#include "builder.h"

namespace stepcast::model {

// head.cpp. `logits` of them, `half_logits` as the output projection left them.
Operator cross_entropy(Builder& b, std::int64_t logits, const Tensor& half_logits);

// The output projection and its loss on the normed stream.
Node add_projection_loss(Builder& b, Node from, const Tensor& normed);

// attention.cpp: rotation of queries and keys.
Operator rotary(Builder& b, std::int64_t query_bytes, std::int64_t key_bytes);

}  // namespace stepcast::model
