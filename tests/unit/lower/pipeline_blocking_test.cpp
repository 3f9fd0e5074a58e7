// Messages that hold the compute stream up.
#include "catch.hpp"
#include "traced.h"

using stepcast::lower::test::Traced;

TEST_CASE("Where the pass changes, send and receive are posted together", "[lower]") {
  const Traced traced(
      R"("system": "megatron-lm", "parallelism": {"pipeline": 2}, "workload": {"sequence_length": 512, "global_batch": 16, "micro_batch": 1})");
  CHECK(traced.of({"send", "receive"}) == R"(compute: send
compute: send and receive
compute: send and receive
compute: send and receive
compute: receive
)");
}

TEST_CASE("The last stage begins with a receive", "[lower]") {
  const Traced traced(
      R"("system": "megatron-lm", "parallelism": {"pipeline": 2}, "workload": {"sequence_length": 512, "global_batch": 16, "micro_batch": 1})",
      1);
  CHECK(traced.of({"send", "receive"}) == R"(compute: receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send
)");
}
