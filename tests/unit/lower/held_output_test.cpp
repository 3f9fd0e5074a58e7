// The result of the model that a training loop holds.
#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {

namespace {

// One layer and two micro-batches: when results in fp32 are there, beside the passes.
std::string results(bool cleared) {
  strategy::Plan plan = small_plan({.layers = 1, .micro_batches = 2});
  run_eagerly(plan);
  plan.loss_form.wide_output = true;
  plan.loss_form.clears_output = cleared;
  return Traced(plan).of({"result in fp32", "compute: pass", "compute: optimizer"});
}

}  // namespace

TEST_CASE("A result in fp32 stands until the next one is there, and the last to the step's end",
          "[lower]") {
  CHECK(results(false) == R"(compute: pass
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
  CHECK(results(true) == R"(compute: pass
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
