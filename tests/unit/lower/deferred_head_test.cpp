// Weight gradients of the output projection that wait for the end of the last stage's passes.
#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {

namespace {

strategy::Plan plan_of(int deferred) {
  strategy::Plan plan = small_plan({.pipeline = 2, .micro_batches = 3});
  plan.accumulation.deferred_heads = deferred;
  return plan;
}

}  // namespace

TEST_CASE("Logits' gradients of the first micro-batches stand until the passes have ended",
          "[lower]") {
  CHECK(
      Traced(plan_of(2), 1).of({"output gradients", "weight gradients", "gradients all_reduce"}) ==
      R"(+ output gradients 32768000
+ output gradients 32768000
+ weight gradients 65536000
- weight gradients
- output gradients
+ weight gradients 65536000
- weight gradients
- output gradients
compute: gradients all_reduce 181428224
)");
}

TEST_CASE("Without deferral, or on a stage without the head, nothing waits", "[lower]") {
  CHECK(Traced(plan_of(0), 1).of({"output gradients"}).empty());
  CHECK(Traced(plan_of(2), 0).of({"output gradients"}).empty());
}

}  // namespace stepcast::lower::test
