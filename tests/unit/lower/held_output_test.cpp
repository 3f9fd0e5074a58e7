// The result of the model that a training loop holds.
#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {

TEST_CASE("A result in fp32 stands until the next one is there, and the last to the step's end",
          "[lower]") {
  strategy::Plan plan = small_plan({.layers = 1, .micro_batches = 2});
  run_eagerly(plan);
  plan.loss_form.wide_output = true;
  const Traced traced(plan);
  CHECK(traced.of({"result in fp32", "compute: pass", "compute: optimizer"}) == R"(compute: pass
compute: pass
+ the model's result in fp32 65536000
compute: pass
compute: pass
compute: pass
compute: pass
compute: pass
compute: pass
+ the model's result in fp32 65536000
compute: pass
- the model's result in fp32
compute: pass
compute: pass
compute: pass
compute: optimizer
- the model's result in fp32
)");
}

TEST_CASE("A result in fp32 that the loop gives up goes with the backward pass of its loss",
          "[lower]") {
  strategy::Plan plan = small_plan({.layers = 1, .micro_batches = 2});
  run_eagerly(plan);
  plan.loss_form.wide_output = plan.loss_form.clears_output = true;
  const Traced traced(plan);
  CHECK(traced.of({"result in fp32", "compute: pass", "compute: optimizer"}) == R"(compute: pass
compute: pass
+ the model's result in fp32 65536000
compute: pass
compute: pass
- the model's result in fp32
compute: pass
compute: pass
compute: pass
compute: pass
+ the model's result in fp32 65536000
compute: pass
compute: pass
- the model's result in fp32
compute: pass
compute: pass
compute: optimizer
)");
}

}  // namespace stepcast::lower::test
