// The output projection's loss as a framework runs it over tensor ranks and number formats.
#pragma once

#include "stepcast/model/operators.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::lower {

// Torch's own cross-entropy behind layers of Megatron's kind (parallel_output False): logits are
// gathered, and every tensor rank computes the loss of the whole vocabulary.
bool gathers_logits(const strategy::Plan& plan);

// A head's graph (model::build_head) with what its eager loss holds there.
model::OperatorGraph with_loss(model::OperatorGraph head, const strategy::Plan& plan);

}  // namespace stepcast::lower
