// Rotary positions by eager operators, one by one, as each form's function makes and gives up its
// tensors (model::Operator::Rotation). `i` is the operator of the graph, `x` the piece whose result
// is rotated; what is returned is the piece whose result stands in its place.
#pragma once

#include <cstddef>
#include <vector>

#include "piece_writer.h"

namespace stepcast::lower {

std::size_t rotate_halves(PieceWriter& writer, std::size_t i, std::size_t x);

// Of queries, keys and values that are one projection's result: the pieces that attention reads.
std::vector<std::size_t> rotate_packed(PieceWriter& writer, std::size_t i, std::size_t projection);

// Of queries and keys.
std::vector<std::size_t> rotate_complex(PieceWriter& writer, std::size_t i,
                                        const std::vector<std::size_t>& qk);

// In the places of operator `of`.
std::size_t rotate_pairs(PieceWriter& writer, std::size_t of, std::size_t i, std::size_t x);

}  // namespace stepcast::lower
