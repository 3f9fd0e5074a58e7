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

}  // namespace stepcast::lower
