// Messages of interleaved stages beside compute.
#include "catch.hpp"
#include "traced.h"

using stepcast::lower::test::Traced;

TEST_CASE("Messages run beside compute, each direction on its stream", "[lower]") {
  const Traced traced(
      R"("system": "megatron-lm", "parallelism": {"pipeline": 2, "virtual_pipeline": 2, "overlap": {"pipeline": true}}, "workload": {"sequence_length": 512, "global_batch": 16, "micro_batch": 1})",
      1, {.layers = 4, .tied = false});
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
