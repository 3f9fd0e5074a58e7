#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {

namespace {

// Weights of 2.1, 0.5, 0.5, 1.0 (attention) and 4.2, 2.1 million elements (gate with up, down) a
// layer; the table is the embedding's and the head's.
strategy::Plan modules_of_own(int layers) {
  strategy::Plan plan = small_plan({.layers = layers});
  run_eagerly(plan);
  share_modules(plan);
  plan.parameter_gather.reuse_elements = 0;
  return plan;
}

}  // namespace

TEST_CASE(
    "DeepSpeed gathers the next parameters in one operation until they fill the bucket, and gives "
    "each up behind its module",
    "[lower]") {
  strategy::Plan plan = modules_of_own(1);
  plan.parameter_gather.prefetch_elements = 4'500'000;
  const Traced traced(plan);
  CHECK(traced.of({"parameters", "pass"}) == R"()");
}

TEST_CASE("Nothing is gathered ahead while as many parameters as allowed are whole", "[lower]") {
  strategy::Plan plan = modules_of_own(1);
  plan.parameter_gather.live_elements = 1;
  const Traced traced(plan);
  CHECK(traced.of({"all_gather"}) == R"()");
}

TEST_CASE("A parameter that is read again soon stays", "[lower]") {
  strategy::Plan plan = modules_of_own(1);
  plan.parameter_gather.reuse_elements = 1'000'000'000;
  const Traced traced(plan);
  CHECK(traced.of({"all_gather"}) == R"()");
}

TEST_CASE(
    "A checkpoint gathers the modules that it runs again behind the first module's backward hook",
    "[lower]") {
  strategy::Plan plan = modules_of_own(1);
  plan.recompute.kind = RecomputeKind::full;
  const Traced traced(plan);
  CHECK(traced.of({"parameters", "pass"}) == R"()");
}

}  // namespace stepcast::lower::test
