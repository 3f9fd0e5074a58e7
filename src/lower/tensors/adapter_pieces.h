// Low-rank adapters beside the products of one input, each behind its own (model/finetune.cpp).
//
// SOURCE  PEFT 0.21.2, tuners/lora/layer.py:1102: result + lora_B(lora_A(dropout(x))) * scaling; in
//         tuners/lora/bnb.py:546 the same behind a copy of the result.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "piece_writer.h"

namespace stepcast::lower {

// Which of so many products of one operator the adapter of this name is beside.
std::optional<std::size_t> adapted_product(std::string_view name, std::size_t products);

struct AdapterBranches {
  // By product, the operators of its adapter; the last adds its result to the product's.
  std::vector<std::vector<std::size_t>> of;
  std::size_t end = 0;  // the operator behind all of them
};

// Of operator `i`. An adapter that cannot be told apart from the others runs behind all products.
AdapterBranches adapters_of(const PieceWriter& writer, std::size_t i);

// What the adapter's first product, operator `i`, reads where its matrices are in fp32: a copy as
// wide (PEFT 0.21.2, tuners/tuners_utils.py:2235: _cast_input_dtype), which is a variable of the
// layer's function, and that cast for the product, which keeps it. The product itself is added as
// well.
struct CopiedInput {
  std::size_t copy = 0, product = 0;
};
CopiedInput add_on_copy(PieceWriter& writer, std::size_t i);

// The sum of a product and its adapter, operator `i`: the adapter's result is scaled, then added.
std::size_t add_adapted(PieceWriter& writer, std::size_t i, std::size_t product);

// Learned scales of a product's columns, operator `i`: the product, with a bias, is kept, and its
// scaled copy handed on.
bool is_scale(const model::Operator& op);
std::size_t add_scaled(PieceWriter& writer, std::size_t i, std::size_t product);

}  // namespace stepcast::lower
