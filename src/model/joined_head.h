// Heads whose projection and loss are one function (LossKernel, joins_head): no logits are
// returned.
#pragma once

#include "builder.h"

namespace stepcast::model {

// Rows of the final norm's result whose next word has a label, where the function reads a copy of
// them; else `from`, and `rows` as it is.
Node add_labelled_rows(Builder& b, Node from, Tensor& rows);
// The product of all of the head's rows, in the pieces in which the function makes it.
void describe_joined_product(const Builder& b, Operator& project);
// Tensors of a tiled product whose input or weight is fp32, where the others have the builder's
// format: what it casts, and what its sums are cast to. Returns the bytes that the casts of a pass
// move.
Bytes describe_tiled_formats(const Builder& b, bool wide_input, bool wide_weight,
                             Operator& project);
// The loss of `logits` words by tokens, in the same pieces.
void describe_joined_loss(Builder& b, Operator& loss, std::int64_t logits);

}  // namespace stepcast::model
