// The kernels and exchanges of an attention operator whose sequence is cut over context ranks, or
// packed from documents.
#pragma once

#include "pass_state.h"

namespace stepcast::lower {

void context_attention(PassState& state, const model::Operator& op, bool backward);

}  // namespace stepcast::lower
