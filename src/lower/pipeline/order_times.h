// When each slot of an order runs if kernels take their own times and communication is free. It
// decides where receives are posted, and where passes run that the order does not name. These times
// are not the simulation's clock; they give an order that every rank can follow.
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
