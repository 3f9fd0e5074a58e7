// Gradients that are reduced unit by unit, with pipeline stages.
#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {
namespace {

// With pipeline stages, units are reduced once per step.
void share_between_stages(strategy::Plan& plan) {
  run_eagerly(plan);
  share_units(plan);
  plan.stage_transport.holds_compute = true;
  plan.gradient_sync.each_pass = false;
  plan.gradient_sync.accumulates_whole = true;
  plan.parameter_gather.reshard_after_forward = false;
}

}  // namespace

TEST_CASE("Between stages they are reduced behind the last backward pass", "[lower]") {
  strategy::Plan plan = small_plan({.pipeline = 2, .micro_batches = 4});
  share_between_stages(plan);
  const Traced traced(plan);
  CHECK(traced.of({"gradients", "send", "receive"}) == R"(compute: send
compute: send and receive
+ unsharded gradients 8388608
+ unsharded gradients 8388608
+ unsharded gradients 2048
+ unsharded gradients 2048
+ unsharded gradients 2097152
+ unsharded gradients 6291456
+ unsharded gradients 2048
+ unsharded gradients 2048
+ accumulated gradients 4096
- unsharded gradients
+ accumulated gradients 4096
- unsharded gradients
+ accumulated gradients 12582912
- unsharded gradients
+ accumulated gradients 4194304
- unsharded gradients
+ accumulated gradients 4096
- unsharded gradients
+ accumulated gradients 4096
- unsharded gradients
+ accumulated gradients 16777216
- unsharded gradients
+ accumulated gradients 16777216
- unsharded gradients
+ unsharded gradients 1048576
+ unsharded gradients 65536000
+ accumulated gradients 131072000
- unsharded gradients
+ accumulated gradients 2097152
- unsharded gradients
compute: send and receive
+ unsharded gradients 25174016
- unsharded gradients
+ unsharded gradients 66584576
- unsharded gradients
compute: send and receive
+ unsharded gradients 25174016
- unsharded gradients
+ unsharded gradients 66584576
- unsharded gradients
compute: receive
+ unsharded gradients 25174016
- unsharded gradients
+ unsharded gradients 66584576
- unsharded gradients
+ gradients to reduce 50348032
compute: copy gradients in
- accumulated gradients
- accumulated gradients
- accumulated gradients
- accumulated gradients
- accumulated gradients
- accumulated gradients
- accumulated gradients
- accumulated gradients
+ sharded gradients 12587008
reduce-scatter: gradients reduce_scatter 50348032 <- all-gather, compute
- gradients to reduce
+ gradients to reduce 133169152
compute: copy gradients in <- reduce-scatter
- accumulated gradients
- accumulated gradients
+ sharded gradients 33292288
reduce-scatter: gradients reduce_scatter 133169152 <- all-gather, compute
- gradients to reduce
- sharded gradients
- sharded gradients
)");
}

TEST_CASE("A chunk's gradients are reduced ahead of the rank's next backward pass", "[lower]") {
  strategy::Plan plan =
      small_plan({.layers = 4, .pipeline = 2, .chunks = 2, .schedule = "looped_bfs"});
  share_between_stages(plan);
  CHECK(Traced(plan).of({"reduce_scatter", "pass"}) == R"(compute: pass <- all-gather
compute: pass
compute: pass <- all-gather
compute: pass
compute: pass <- all-gather
compute: pass
compute: pass
reduce-scatter: gradients reduce_scatter 50348032 <- all-gather, compute
compute: pass
compute: pass
reduce-scatter: gradients reduce_scatter 50348032 <- all-gather, compute
reduce-scatter: gradients reduce_scatter 133169152 <- all-gather, compute
)");
}

TEST_CASE("A replica's gradients are reduced ahead of the other replica's forward pass",
          "[lower]") {
  using schedule::Pass;
  strategy::Plan plan =
      small_plan({.pipeline = 2, .chunks = 2, .micro_batches = 2, .schedule = "chimera"});
  const std::vector<schedule::Slot> one_by_one = {
      {Pass::forward, 0, 0}, {Pass::backward, 0, 0}, {Pass::forward, 1, 1}, {Pass::backward, 1, 1}};
  plan.order.ranks = {one_by_one, one_by_one};
  share_between_stages(plan);
  CHECK(Traced(plan).of({"reduce_scatter", "pass"}) == R"(compute: pass <- all-gather
compute: pass
compute: pass <- all-gather
compute: pass
compute: pass
compute: pass
reduce-scatter: gradients reduce_scatter 50348032 <- all-gather, compute
reduce-scatter: gradients reduce_scatter 133169152 <- all-gather, compute
compute: pass <- all-gather
compute: pass
compute: pass <- all-gather
compute: pass
compute: pass
compute: pass
reduce-scatter: gradients reduce_scatter 131080192 <- all-gather, compute
reduce-scatter: gradients reduce_scatter 50348032 <- all-gather, compute
)");
}

}  // namespace stepcast::lower::test
