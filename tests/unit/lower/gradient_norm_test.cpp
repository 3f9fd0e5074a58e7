// The norm of all gradients.
#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {

TEST_CASE("A norm that the step does not wait for has a stream of its own", "[lower]") {
  strategy::Plan plan = small_plan({.pipeline = 2, .micro_batches = 4, .schedule = "zb_h1"});
  plan.optimizer_step.post_validated = true;
  const Traced traced(plan);
  CHECK(traced.of({"norm"}) == R"(compute: gradient norm
norm: gradient norm <- compute
)");
}

TEST_CASE("The others wait for the norm of all ranks", "[lower]") {
  strategy::Plan plan = small_plan();
  plan.optimizer_step.norm_has_its_group = true;
  const Traced traced(plan);
  CHECK(traced.of({"norm", "host waits"}) == R"(compute: gradient norm
compute: gradient norm all_reduce 4
host waits for compute
)");
}

}  // namespace stepcast::lower::test
