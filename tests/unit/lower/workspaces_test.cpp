// Scratch memory of libraries.
#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {

TEST_CASE("Workspaces of libraries stand", "[lower]") {
  strategy::Plan plan = small_plan();
  plan.accumulation.in_product = plan.accumulation.empty_gradients_stand = true;
  plan.device_memory.layer_workspace = true;
  const Traced traced(plan);
  CHECK(traced.of({"workspace", "scores", "empty"}) == R"(= GEMM workspace 100663296
= empty weight gradients 25165824
)");
}

}  // namespace stepcast::lower::test
