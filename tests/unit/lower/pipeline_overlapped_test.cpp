// Messages of interleaved stages that overlap compute.
#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {

TEST_CASE("Messages run beside compute, each direction on its stream", "[lower]") {
  strategy::Plan plan = small_plan({.layers = 4,
                                    .pipeline = 2,
                                    .chunks = 2,
                                    .micro_batches = 4,
                                    .schedule = "interleaved_1f1b"});
  plan.stage_transport.holds_compute = plan.stage_transport.overlaps = true;
  const Traced traced(plan, 1);
  CHECK(traced.of({"send", "receive"}) ==
        R"(receive forward: receive forward <- compute of the step before
compute: pass <- receive forward
send forward: send forward <- compute
receive forward: receive forward <- compute
compute: pass <- receive forward
send forward: send forward <- compute
receive forward: receive forward <- compute
compute: pass <- receive forward
receive forward: receive forward <- compute
send backward: send backward <- compute
compute: pass <- receive forward
receive forward: receive forward <- compute
send backward: send backward <- compute
receive backward: receive backward <- compute
compute: pass <- receive forward
send forward: send forward <- compute
receive forward: receive forward <- compute
compute: pass <- receive backward
send backward: send backward <- compute
receive backward: receive backward <- compute
compute: pass <- receive forward
send forward: send forward <- compute
receive forward: receive forward <- compute
compute: pass <- receive backward
send backward: send backward <- compute
compute: pass <- receive forward
receive forward: receive forward <- compute
send backward: send backward <- compute
compute: pass <- receive forward
send backward: send backward <- compute
receive backward: receive backward <- compute
compute: pass <- receive backward
send backward: send backward <- compute
receive backward: receive backward <- compute
compute: pass <- receive backward
send backward: send backward <- compute
)");
}

}  // namespace stepcast::lower::test
