// Messages of interleaved stages that block the compute stream.
#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {

TEST_CASE("Four messages go together in the steady phase", "[lower]") {
  strategy::Plan plan = small_plan({.layers = 4,
                                    .pipeline = 2,
                                    .chunks = 2,
                                    .micro_batches = 4,
                                    .schedule = "interleaved_1f1b"});
  plan.stage_transport.holds_compute = true;
  const Traced traced(plan);
  CHECK(traced.of({"send", "receive"}) == R"(compute: send
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: receive
)");
}

TEST_CASE("The last of interleaved stages begins with two receives", "[lower]") {
  strategy::Plan plan = small_plan({.layers = 4,
                                    .pipeline = 2,
                                    .chunks = 2,
                                    .micro_batches = 4,
                                    .schedule = "interleaved_1f1b"});
  plan.stage_transport.holds_compute = true;
  const Traced traced(plan, 1);
  CHECK(traced.of({"send", "receive"}) == R"(compute: receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send
)");
}

}  // namespace stepcast::lower::test
