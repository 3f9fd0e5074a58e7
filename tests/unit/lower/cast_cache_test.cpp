// Casts of weights that torch.autocast keeps.
#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {

TEST_CASE("Casts for layers that run again stand until the forward pass is over", "[lower]") {
  strategy::Plan plan = small_plan({.micro_batches = 2});
  run_eagerly(plan);
  plan.style.autocast = true;
  plan.recompute.kind = RecomputeKind::full;
  const Traced traced(plan);
  CHECK(traced.of({"casts of weights", "recomputed activations"}) == R"(+ casts of weights 25165824
+ casts of weights 25165824
- casts of weights
- casts of weights
+ recomputed activations 41959424
- recomputed activations
+ recomputed activations 41959424
- recomputed activations
+ casts of weights 25165824
+ casts of weights 25165824
- casts of weights
- casts of weights
+ recomputed activations 41959424
- recomputed activations
+ recomputed activations 41959424
- recomputed activations
)");
}

TEST_CASE("Casts for layers that keep what they made are autograd's alone", "[lower]") {
  strategy::Plan plan = small_plan();
  run_eagerly(plan);
  plan.style.autocast = true;
  CHECK(Traced(plan).of({"casts of weights"}).empty());
}

}  // namespace stepcast::lower::test
