// Parameters that are gathered once a step.
#include "catch.hpp"
#include "traced.h"

using stepcast::lower::test::Traced;

TEST_CASE("Beside compute, a piece is waited for where it is first used, and asks for the next",
          "[lower]") {
  const Traced traced(
      R"("system": "megatron-lm", "parallelism": {"sharding": "zero1", "overlap": {"grad_reduce": true, "param_gather": true}}, "workload": {"sequence_length": 512, "global_batch": 8, "micro_batch": 1})");
  CHECK(traced.of({"parameters", "<- data"}) == R"(= parameters 182472704
data: parameters all_gather 91758592 <- compute of the step before
data: parameters all_gather 90714112
compute: pass <- data
compute: pass <- data
compute: gradient norm <- data
)");
}

TEST_CASE("Else all are gathered behind the optimizer", "[lower]") {
  const Traced traced(
      R"("system": "megatron-lm", "parallelism": {"sharding": "zero1"}, "workload": {"sequence_length": 512, "global_batch": 8, "micro_batch": 1})");
  CHECK(traced.of({"parameters", "<- data"}) == R"(= parameters 182472704
compute: parameters all_gather 182472704
)");
}
