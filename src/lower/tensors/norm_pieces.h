// An RMS norm by eager operators, one by one (model/norm.cpp).
//
// SOURCE  transformers 5.23, models/llama/modeling_llama.py:61 to 66: a cast to fp32, the square
// and
//         its mean, the product with the root's inverse, a cast back, the product with the weight.
//         torch 2.7, aten/src/ATen/native/layer_norm.cpp (rms_norm), as torchtune 0.6.1,
//         modules/rms_norm.py:38 calls it: the weight's product ahead of the cast back. Histories
//         of the caching allocator (tests/oracle).
#pragma once

#include <cstddef>

#include "piece_writer.h"

namespace stepcast::lower {

// A norm in Python of one tensor, which nothing surrounds but autograd.
bool is_eager_norm(const PieceWriter& writer, std::size_t i);
// Such norms of queries and of keys in one operator, which are a product's each, as values are.
bool norms_two_products(const PieceWriter& writer, std::size_t i);

// The piece whose result is the norm's.
std::size_t divide_norm(PieceWriter& writer, std::size_t i);
// That of the queries' norm (`n` is 0) or of the keys' (1).
std::size_t divide_norm_of_two(PieceWriter& writer, std::size_t i, std::size_t n);

}  // namespace stepcast::lower
