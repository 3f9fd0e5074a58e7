// Messages of any order.
#include "catch.hpp"
#include "traced.h"

using stepcast::lower::test::Traced;

TEST_CASE("Receives are posted when the order, played ahead, has the message made", "[lower]") {
  const Traced traced(
      R"("system": "zero-bubble", "parallelism": {"pipeline": 2, "schedule": "zb_h1"}, "workload": {"sequence_length": 512, "global_batch": 16, "micro_batch": 1})",
      1);
  CHECK(traced.of({"send", "receive"}) ==
        R"(receive forward: receive forward <- compute of the step before
compute: pass <- receive forward
receive forward: receive forward <- compute
send backward: send backward <- compute
compute: pass <- receive forward
receive forward: receive forward <- compute
send backward: send backward <- compute
compute: pass <- receive forward
receive forward: receive forward <- compute
send backward: send backward <- compute
compute: pass <- receive forward
send backward: send backward <- compute
)");
}
