// Pipeline messages that block the compute stream.
#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {

TEST_CASE("Where the pass changes, send and receive are posted together", "[lower]") {
  strategy::Plan plan = small_plan({.pipeline = 2, .micro_batches = 4});
  plan.stage_transport.holds_compute = true;
  const Traced traced(plan);
  CHECK(traced.of({"send", "receive"}) == R"(compute: send
compute: send and receive
compute: send and receive
compute: send and receive
compute: receive
)");
}

TEST_CASE("The last stage begins with a receive", "[lower]") {
  strategy::Plan plan = small_plan({.pipeline = 2, .micro_batches = 4});
  plan.stage_transport.holds_compute = true;
  const Traced traced(plan, 1);
  CHECK(traced.of({"send", "receive"}) == R"(compute: receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send
)");
}

TEST_CASE("One at a time: send first behind a forward pass, receive first behind a backward pass",
          "[lower]") {
  strategy::Plan plan = small_plan({.pipeline = 2, .micro_batches = 3});
  plan.stage_transport.holds_compute = plan.stage_transport.follows_pass = true;
  plan.stage_transport.batched = false;
  CHECK(Traced(plan).of({"send", "receive", "pass"}) == R"()");
  CHECK(Traced(plan, 1).of({"send", "receive", "pass"}) == R"()");
}

}  // namespace stepcast::lower::test
