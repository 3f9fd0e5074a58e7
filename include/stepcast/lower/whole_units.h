// What a rank holds of units that are gathered and reduced whole (FSDP2, ZeRO-3), beside the shards that stand from step to
// step, as lower/data/sharded_parameters.cpp and sharded_gradients.cpp make it.
#pragma once

#include "stepcast/strategy/plan.h"

namespace stepcast::lower {

struct WholeUnits {
  // The closed form covers the plan; all other members are meaningless where it does not.
  bool applies = false;
  bool drops_after_forward = false;  // gathered parameters, until the backward pass
  bool drops_after_backward = false;
  bool gradients_wait = false;  // whole, for the chunk's last backward pass
  bool gathers_next = false;    // a backward pass gathers the next unit while one runs
  // Bytes of a parameter while it is whole, at least, and of its gradient while it waits.
  double parameter = 0, gradient = 0;
  // Of a parameter of which the gradient is reduced in the pass that makes it: that and what is reduced, at once.
  double reducing = 0;
};

WholeUnits whole_units(const strategy::Plan& plan);

}  // namespace stepcast::lower
