// When each slot of an order runs, played ahead on the kernels' own times with free communication:
// what decides where receives are posted and where passes that an order leaves unnamed go. No clock
// of the simulation: an order that every rank can follow.
#pragma once

#include <functional>
#include <vector>

#include "stepcast/strategy/plan.h"

namespace stepcast::lower {

struct OrderTimes {
  std::vector<std::vector<double>> start, end;  // [pipeline rank][slot]
  double period = 0;                            // of one micro-batch in the steady state
};

// How long a pass of a rank's chunk takes, in any unit.
using PassTime = std::function<double(int rank, int chunk, schedule::Pass pass)>;

OrderTimes order_times(const strategy::Plan& plan, const PassTime& time);

}  // namespace stepcast::lower
