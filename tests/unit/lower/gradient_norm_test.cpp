// The norm of all gradients.
#include "catch.hpp"
#include "traced.h"

using stepcast::lower::test::Traced;

TEST_CASE("A norm that the step does not wait for has a stream of its own", "[lower]") {
  const Traced traced(
      R"("system": "zero-bubble", "parallelism": {"pipeline": 2, "schedule": "zb_h1"}, "workload": {"sequence_length": 512, "global_batch": 16, "micro_batch": 1})");
  CHECK(traced.of({"norm"}) == R"(compute: gradient norm
norm: gradient norm <- compute
)");
}

TEST_CASE("The others wait for the norm of all ranks", "[lower]") {
  const Traced traced(
      R"("system": "megatron-lm", "workload": {"sequence_length": 512, "global_batch": 8, "micro_batch": 1})");
  CHECK(traced.of({"norm", "host waits"}) == R"(compute: gradient norm
compute: gradient norm all_reduce 4
host waits for compute
)");
}
