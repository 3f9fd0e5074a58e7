// Operators that are also built alone, outside a layer (pieces.cpp).
#pragma once

#include "builder.h"

namespace stepcast::model {

// head.cpp. `logits`: their number; `half_logits`: the output projection's result.
Operator cross_entropy(Builder& b, std::int64_t logits, const Tensor& half_logits);

// head.cpp: the output projection and the loss, on the normed residual stream.
Node add_projection_loss(Builder& b, Node from, const Tensor& normed);

// attention.cpp: rotation of queries and keys.
Operator rotary(Builder& b, std::int64_t query_bytes, std::int64_t key_bytes);

}  // namespace stepcast::model
