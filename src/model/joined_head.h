// Heads whose projection and loss are one function (LossKernel, joins_head): no logits are
// returned.
#pragma once

#include "builder.h"

namespace stepcast::model {

// TRL 1.16.0, kernels/chunked_logprob.py:30, trainer/utils.py:1506: tokens and words of a tile of
// logits, whose buffer is as wide for a smaller vocabulary.
inline constexpr std::int64_t kTileTokens = 4096;
inline constexpr std::int64_t kTileWords = 32768;

// Rows of the final norm's result whose next word has a label, where the function reads a copy of
// them; else `from`, and `rows` as it is.
Node add_labelled_rows(Builder& b, Node from, Tensor& rows);
// The product of all of the head's rows, in the pieces in which the function makes it.
void describe_joined_product(const Builder& b, Operator& project);
// The loss of `logits` words by tokens, in the same pieces.
void describe_joined_loss(Builder& b, Operator& loss, std::int64_t logits);

}  // namespace stepcast::model
