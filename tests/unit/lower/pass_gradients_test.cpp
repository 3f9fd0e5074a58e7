// Gradients of a micro-batch in the parameters' format, beside wider main ones.
#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {

TEST_CASE("Narrow gradients stand from their unit's backward pass to the end of the micro-batch's",
          "[lower]") {
  strategy::Plan plan = small_plan({.layers = 1, .micro_batches = 2});
  plan.state_layout.keeps_pass_gradients = true;
  const Traced traced(plan);
  CHECK(traced.of({"gradients of a micro-batch"}) == R"(+ gradients of a micro-batch 65540096
+ gradients of a micro-batch 25174016
+ gradients of a micro-batch 66584576
- gradients of a micro-batch
- gradients of a micro-batch
- gradients of a micro-batch
+ gradients of a micro-batch 65540096
+ gradients of a micro-batch 25174016
+ gradients of a micro-batch 66584576
- gradients of a micro-batch
- gradients of a micro-batch
- gradients of a micro-batch
)");
}

}  // namespace stepcast::lower::test
