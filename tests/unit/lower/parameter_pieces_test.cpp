// Parameters that are gathered once per step.
#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {

TEST_CASE("Beside compute, a piece is waited for where it is first used, and asks for the next",
          "[lower]") {
  strategy::Plan plan = small_plan();
  share(plan, strategy::DataComm::shard_states);
  strategy::GradientSync& sync = plan.gradient_sync;
  sync.overlaps = sync.sends_as_filled = true;
  plan.parameter_gather.overlaps = true;
  const Traced traced(plan);
  CHECK(traced.of({"parameters", "<- data"}) == R"(= parameters 182472704
data: parameters all_gather 91758592 <- compute of the step before
data: parameters all_gather 90714112
compute: pass <- data
compute: pass <- data
compute: gradient norm <- data
)");
}

TEST_CASE("Else all are gathered behind the optimizer", "[lower]") {
  strategy::Plan plan = small_plan();
  share(plan, strategy::DataComm::shard_states);
  const Traced traced(plan);
  CHECK(traced.of({"parameters", "<- data"}) == R"(= parameters 182472704
compute: parameters all_gather 182472704
)");
}

}  // namespace stepcast::lower::test
