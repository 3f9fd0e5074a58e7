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

}  // namespace stepcast::lower
