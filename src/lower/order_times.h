// When each slot of an order runs, played with FLOPs as times: what decides where receives are
// posted and where passes that an order leaves unnamed go. No clock of the simulation: an order
// that every rank can follow.
#pragma once

#include <map>
#include <vector>

#include "stepcast/model/operators.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::lower {

struct OrderTimes {
  std::vector<std::vector<double>> start, end;  // [pipeline rank][slot]
  double period = 0;                            // of one micro-batch in the steady state
};

OrderTimes order_times(const strategy::Plan& plan,
                       const std::map<model::LayerKind, model::OperatorGraph>& layers,
                       const model::OperatorGraph& head);

}  // namespace stepcast::lower
