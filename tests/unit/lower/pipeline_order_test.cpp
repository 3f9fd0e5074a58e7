// Pipeline messages of an arbitrary order of passes.
#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {

TEST_CASE("Receives are posted when the order, played ahead, has the message made", "[lower]") {
  const strategy::Plan plan = small_plan({.pipeline = 2, .micro_batches = 4, .schedule = "zb_h1"});
  const Traced traced(plan, 1);
  CHECK(traced.of({"send", "receive"}) ==
        R"(receive forward: receive forward <- compute of the step before
compute: pass <- receive forward
receive forward: receive forward <- compute
send backward: send backward <- compute
compute: pass <- receive forward
send backward: send backward <- compute
receive forward: receive forward <- compute
compute: pass <- receive forward
receive forward: receive forward <- compute
send backward: send backward <- compute
compute: pass <- receive forward
send backward: send backward <- compute
)");
}

}  // namespace stepcast::lower::test
