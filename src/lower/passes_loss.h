// The output projection's loss as a framework runs it over tensor ranks and number formats.
#pragma once

#include "stepcast/model/operators.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::lower {

// A head's graph (model::build_head) with what its eager loss holds there.
model::OperatorGraph with_loss(model::OperatorGraph head, const strategy::Plan& plan);

}  // namespace stepcast::lower
