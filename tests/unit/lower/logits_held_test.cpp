// The logits that a training loop holds, and the metrics that it computes of them.
#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {

namespace {

// One layer and two micro-batches.
std::string held(bool metrics) {
  strategy::Plan plan = small_plan({.layers = 1, .micro_batches = 2});
  run_eagerly(plan);
  plan.loss_form.holds_logits = true;
  plan.style.loss_metrics = metrics ? 2 : 0;
  return Traced(plan).of({"logits of the last", "compute: pass", "compute: optimizer"});
}

}  // namespace

TEST_CASE("Logits stand from a loss's backward pass to the next logits, from step to step",
          "[lower]") {
  CHECK(held(false) == R"(compute: pass
compute: pass
compute: pass
- logits of the last micro-batch
+ logits of the last micro-batch 32768000
compute: pass
compute: pass
compute: pass
compute: pass
compute: pass
compute: pass
- logits of the last micro-batch
+ logits of the last micro-batch 32768000
compute: pass
compute: pass
compute: pass
compute: optimizer
)");
}

TEST_CASE("Metrics come behind each backward pass", "[lower]") {
  CHECK(held(true) == R"(compute: pass
compute: pass
compute: pass
- logits of the last micro-batch
+ logits of the last micro-batch 32768000
compute: pass
compute: pass
compute: pass
compute: pass
compute: pass
compute: pass
compute: pass
- logits of the last micro-batch
+ logits of the last micro-batch 32768000
compute: pass
compute: pass
compute: pass
compute: pass
compute: optimizer
)");
}

}  // namespace stepcast::lower::test
