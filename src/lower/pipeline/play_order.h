// A plan's order played ahead on the kernels of one device.
#pragma once

#include <map>

#include "../passes/passes.h"
#include "order_times.h"
#include "stepcast/model/operators.h"

namespace stepcast::lower {

struct ModelUnits {
  const std::map<model::LayerKind, model::OperatorGraph>* layers = nullptr;
  const model::OperatorGraph* embedding = nullptr;
  const model::OperatorGraph* head = nullptr;
};

OrderTimes play_order(const PassContext& context, const ModelUnits& units);

}  // namespace stepcast::lower
