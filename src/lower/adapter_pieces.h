// Low-rank adapters beside the products of one input, each behind its own (model/finetune.cpp).
//
// SOURCE  PEFT 0.21.2, tuners/lora/layer.py:1102: result + lora_B(lora_A(dropout(x))) * scaling; in
//         tuners/lora/bnb.py:546 the same behind a copy of the result.
#pragma once

#include <cstddef>
#include <vector>

#include "piece_writer.h"

namespace stepcast::lower {

struct AdapterBranches {
  // By product, the operators of its adapter; the last adds its result to the product's.
  std::vector<std::vector<std::size_t>> of;
  std::size_t end = 0;  // the operator behind all of them
};

// Of operator `i`. An adapter that cannot be told apart from the others runs behind all products.
AdapterBranches adapters_of(const PieceWriter& writer, std::size_t i);

// The sum of a product and its adapter, operator `i`: the adapter's result is scaled, then added.
std::size_t add_adapted(PieceWriter& writer, std::size_t i, std::size_t product);

}  // namespace stepcast::lower
