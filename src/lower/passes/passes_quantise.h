// Products whose operands are cast to 8 or 4 bits.
#pragma once

#include "pass_state.h"

namespace stepcast::lower {

// The operator's operands are cast below 16 bits.
bool quantised(const PassState& state, const model::Operator& op);

// The number format of what attention reads.
DType attention_type(const PassState& state);

// The number format of a product's operands.
DType operand_type(const PassState& state, const model::Operator& op);

// Bytes of an operand's element between its cast and its product, scales included.
double operand_width(const PassState& state, const model::Operator& op);

// Bytes an element of a weight in the products' format, scales included: along rows, and along
// columns where an input gradient's product cannot read rows: 8-bit products take operands that lie
// along the sum alone before Blackwell, and scales of blocks differ by direction.
struct WeightWidths {
  double rows = 0, columns = 0;
};
WeightWidths weight_widths(const strategy::Precision& precision);

// Bytes an element of a frozen 8-bit weight's columns, which stand beside it.
double frozen_columns(const PassState& state, const model::Operator& op);

// An earlier product that is cast reads the same input as operator `i`.
bool shares_input(const PassState& state, std::size_t i);

// Attention's result is kept in 12 bits.
bool keeps_12_bits(const PassState& state, const model::Operator& op);

// The product reads such a result, and keeps no copy of its own.
bool reads_kept_output(const PassState& state, std::size_t i);

// Tensor ranks that cast a shard each and then gather: of an input before a column product, of a
// gradient behind a row product (`gathered`); 1: each rank casts the whole.
int gathered_shards(const PassState& state, const model::Operator& op, model::TensorRole gathered);

// FSDP2 gathers the trained weight in 8 bits: torchao converts linears, and no experts (0.14.1,
// float8/float8_linear_utils.py: nn.Linear).
bool gathered_in_8_bits(const PassState& state, const model::Operator& op);

// A frozen weight stands in the products' format.
bool stands_narrow(const PassState& state, const model::Operator& op);

// The kernels of a cast.
struct CastRecipe {
  double moved = 0;  // bytes read and written an element
  int kernels = 1;
};

// Writes a cast of `elements`, which takes some seconds more than its bytes do.
void write_cast(PassState& state, const std::string& label, double elements,
                const CastRecipe& recipe, double seconds_more = 0);

}  // namespace stepcast::lower
