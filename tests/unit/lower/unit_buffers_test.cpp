// Units that are gathered into a tensor each, and reduced from another one.
#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {

// All is less than what is gathered ahead: both layers are there again before the loss, and the
// backward pass gathers nothing. What is outside of layers stays from step to step; the layers'
// tensors stand when a step begins, and again when it ends. Each gradient goes into its unit's
// tensor, and is added to the shard behind the reduction; all tensors go when the last is reduced.
TEST_CASE("Units in buffers are gathered by elements, and gradients leave from a tensor each",
          "[lower]") {
  strategy::Plan plan = small_plan();
  share_units(plan);
  plan.parameter_gather.unit_buffers = true;
  const Traced traced(plan);
  CHECK(traced.of({"parameters", "gradients", "<- data", "pass"}) == R"(= parameters 45649920
= unsharded parameters 132136960
all-gather: parameters all_gather 132136960 <- compute of the step before
all-gather: parameters all_gather 25231360
all-gather: parameters all_gather 25231360
compute: pass <- all-gather
compute: pass <- all-gather
- unsharded parameters
compute: pass <- all-gather
- unsharded parameters
+ unsharded parameters 25231360
all-gather: parameters all_gather 25231360 <- compute
+ unsharded parameters 25231360
all-gather: parameters all_gather 25231360 <- compute
compute: pass <- all-gather
+ gradients to reduce 264273920
+ unsharded gradients 65540096
compute: pass
- unsharded gradients
compute: copy gradients in
+ gradients to reduce 50462720
+ unsharded gradients 25174016
compute: pass <- all-gather
- unsharded gradients
compute: copy gradients in
+ reduced gradients 6307840
reduce-scatter: gradients reduce_scatter 50462720 <- compute, all-gather
reduce-scatter: add to sharded gradients
- reduced gradients
- unsharded parameters
+ gradients to reduce 50462720
+ unsharded gradients 25174016
compute: pass <- all-gather
- unsharded gradients
compute: copy gradients in
+ reduced gradients 6307840
reduce-scatter: gradients reduce_scatter 50462720 <- compute, all-gather
reduce-scatter: add to sharded gradients
- reduced gradients
- unsharded parameters
+ unsharded gradients 66584576
compute: pass
- unsharded gradients
compute: copy gradients in
+ reduced gradients 33034240
reduce-scatter: gradients reduce_scatter 264273920 <- compute, all-gather
reduce-scatter: add to sharded gradients
- reduced gradients
- gradients to reduce
- gradients to reduce
- gradients to reduce
+ unsharded parameters 25231360
+ unsharded parameters 25231360
)");
}

// What runs again is gathered alone; the layer ahead of it follows before its backward pass.
TEST_CASE("Units in buffers that run again are gathered for both", "[lower]") {
  strategy::Plan plan = small_plan();
  share_units(plan);
  plan.recompute.kind = RecomputeKind::full;
  plan.parameter_gather.unit_buffers = true;
  plan.parameter_gather.unit_buffer_elements = 2;
  const Traced traced(plan);
  CHECK(traced.of({"unsharded parameters", "parameters all_gather", "pass"}) ==
        R"(= unsharded parameters 132136960
all-gather: parameters all_gather 132136960 <- compute of the step before
all-gather: parameters all_gather 25231360
compute: pass <- all-gather
+ unsharded parameters 25231360
all-gather: parameters all_gather 25231360 <- compute
compute: pass <- all-gather
- unsharded parameters
compute: pass <- all-gather
- unsharded parameters
+ unsharded parameters 25231360
all-gather: parameters all_gather 25231360 <- compute
compute: pass <- all-gather
compute: pass
- unsharded parameters
+ unsharded parameters 25231360
all-gather: parameters all_gather 25231360 <- compute
+ unsharded parameters 25231360
all-gather: parameters all_gather 25231360 <- compute
compute: pass <- all-gather
- unsharded parameters
compute: pass <- all-gather
- unsharded parameters
compute: pass <- reduce-scatter
+ unsharded parameters 25231360
)");
}

// One element ahead: the first layer, gathered before the loss, goes with the next gather; with two
// standing buffers of each kind no layer's tensor comes or goes, and the third layer's gradients
// wait for the reduction of the first.
TEST_CASE("Two buffers of each kind stand, and the third unit waits for them", "[lower]") {
  strategy::Plan plan = small_plan({.layers = 3});
  share_units(plan);
  plan.parameter_gather.unit_buffers = plan.parameter_gather.double_buffers = true;
  const Traced traced(plan);
  CHECK(traced.of({"buffers of"}) == R"(= buffers of gathered parameters 25231360
= buffers of gathered parameters 25231360
= buffers of gradients to reduce 50462720
= buffers of gradients to reduce 50462720
)");
  CHECK(traced.of({"gradients to reduce 50462720"}).find('+') == std::string::npos);
}

}  // namespace stepcast::lower::test
