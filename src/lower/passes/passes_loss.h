// The output projection's loss as a framework runs it over tensor ranks and number formats.
#pragma once

#include <string_view>

#include "stepcast/model/operators.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::lower {

// The operator that casts logits ahead of an eager loss, and is a part of it.
inline constexpr std::string_view kLossCast = "loss_cast";

// The operator that joins the logits of all tensor ranks, ahead of a loss of the whole vocabulary.
inline constexpr std::string_view kJoinedLogits = "joined_logits";

// A head's graph (model::build_head) with what its eager loss holds there.
model::OperatorGraph with_loss(model::OperatorGraph head, const strategy::Plan& plan);

}  // namespace stepcast::lower
