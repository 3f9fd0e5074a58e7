// Products of one input, each by itself, with what is made ahead of each: torch.autocast's casts of
// its operands, the dequantised weight of a 4-bit one.
//
// SOURCE  torch 2.15, aten/src/ATen/autocast_mode.h: cached_cast casts the last argument of a
//         product first, as gcc evaluates the arguments of a call, and an input each time anew.
//         bitsandbytes 0.50.2, backends/cuda/ops.py:902 (_dequant_linear_fallback: constants of
//         blocks, with their offset added, the weight, the product) and autograd/_functions.py:383
//         (the weight again, ahead of the gradient's product).
#pragma once

#include <cstddef>

#include "piece_writer.h"

namespace stepcast::lower {

// The operator is such products, which nothing else surrounds but autograd.
bool is_product(const PieceWriter& writer, std::size_t i);

// What the operator makes is made for each product of the next by itself.
bool serves_product(const PieceWriter& writer, std::size_t i);

// One kernel of a compiler, operator `act`, reads the results of both products of operator `i`, a
// gate and its other half, and keeps them.
bool reads_both_halves(const PieceWriter& writer, std::size_t i, std::size_t act);

// The `n`th product of operator `i`, in the places of operator `of`.
std::size_t add_product(PieceWriter& writer, std::size_t of, std::size_t i, std::size_t n);

}  // namespace stepcast::lower
