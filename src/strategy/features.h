#pragma once

#include <optional>

#include "stepcast/strategy/plan.h"

namespace stepcast::strategy {

// The first rule of System::cannot that the job meets, at the key of the rule's first feature.
std::optional<Infeasible> refused(const job::Job& job);

}  // namespace stepcast::strategy
