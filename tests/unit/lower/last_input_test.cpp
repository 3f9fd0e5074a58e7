// The input that a Megatron-LM chunk keeps.
#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {

TEST_CASE("A chunk holds its last input and that one's gradient until the next step", "[lower]") {
  strategy::Plan plan = small_plan({.pipeline = 2, .micro_batches = 1});
  plan.stage_transport.holds_compute = plan.stage_transport.keeps_last_received = true;
  const Traced traced(plan, 1);
  CHECK(traced.of({"last input", "compute: pass"}) == R"(- last input and its gradient
compute: pass
compute: pass
compute: pass
compute: pass
+ last input and its gradient 2097152
)");
}

TEST_CASE("Through the next forward pass a chunk holds what it ran backward last", "[lower]") {
  strategy::Plan plan = small_plan({.pipeline = 2, .micro_batches = 2});
  plan.stage_transport.holds_compute = plan.stage_transport.keeps_last_received = true;
  plan.stage_transport.batched = true;
  const Traced traced(plan, 1);  // the last stage: each backward pass behind its forward pass
  const std::string seen = traced.of({"last input"});
  CHECK(seen == R"(- last input and its gradient
+ last input and its gradient 2097152
- last input and its gradient
+ last input and its gradient 2097152
)");
}

}  // namespace stepcast::lower::test
