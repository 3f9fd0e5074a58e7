// What stages of torch.distributed.pipelining hold of the tensors that they receive and send.
#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {

TEST_CASE("Receive buffers of all micro-batches stand, but for those that a pass reads",
          "[lower]") {
  strategy::Plan plan = small_plan({.pipeline = 2, .micro_batches = 2});
  plan.stage_transport.receives = StageReceives::standing;
  CHECK(Traced(plan, 1).of({"receive buffer", "result of a stage"}) == R"(- receive buffer
+ receive buffer 1048576
- receive buffer
+ receive buffer 1048576
)");
  CHECK(Traced(plan, 0).of({"receive buffer", "result of a stage"}) ==
        R"(+ result of a stage 1048576
+ result of a stage 1048576
- receive buffer
+ receive buffer 1048576
- result of a stage
- receive buffer
+ receive buffer 1048576
- result of a stage
)");
}

TEST_CASE("Losses hold what the last stage received until the schedule ends", "[lower]") {
  strategy::Plan plan = small_plan({.pipeline = 2, .micro_batches = 2});
  plan.stage_transport.receives = StageReceives::held_by_losses;
  CHECK(Traced(plan, 1).of({"received activation", "compute: optimizer"}) ==
        R"(+ received activation 1048576
+ received activation 1048576
- received activation
- received activation
compute: optimizer
)");
  CHECK(Traced(plan, 0).of({"received activation"}).empty());
}

TEST_CASE(
    "Several stages of a rank hold results until their backward pass, and gradients to the end",
    "[lower]") {
  strategy::Plan plan = small_plan({.layers = 4,
                                    .pipeline = 2,
                                    .chunks = 2,
                                    .micro_batches = 2,
                                    .schedule = "interleaved_1f1b"});
  plan.stage_transport.receives = StageReceives::held_by_losses;
  CHECK(Traced(plan, 0).of({"result of a stage", "that is sent"}) ==
        R"(+ result of a stage 1048576
+ result of a stage 1048576
+ result of a stage 1048576
+ result of a stage 1048576
- result of a stage
+ gradient that is sent 1048576
- result of a stage
+ gradient that is sent 1048576
- result of a stage
- result of a stage
- gradient that is sent
- gradient that is sent
)");
}

}  // namespace stepcast::lower::test
