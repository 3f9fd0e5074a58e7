// Vocabulary parallelism across stages (vocabulary.cpp): what a stage's own units leave to it.
#pragma once

#include "stepcast/model/operators.h"

namespace stepcast::lower {

// A unit's operators but for those that vocabulary parallelism spreads over all stages.
model::OperatorGraph without_vocabulary(const model::OperatorGraph& graph);

}  // namespace stepcast::lower
