// Gradients that operators make anew in each step.
#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {

namespace {

strategy::Plan replicated(int micro_batches) {
  strategy::Plan plan = small_plan({.layers = 1, .micro_batches = micro_batches});
  run_eagerly(plan);
  plan.style.autocast = true;
  plan.state_layout.gradients_stand = false;
  strategy::GradientSync& sync = plan.gradient_sync;
  sync.overlaps = sync.sends_as_filled = true;
  sync.bucket_elements = 1 << 22;
  sync.storage = BucketStorage::standing;
  return plan;
}

}  // namespace

// What the second micro-batch makes is added to what the first one left.
TEST_CASE("A step's first gradients are kept, later ones given up", "[lower]") {
  CHECK(Traced(replicated(2)).of({"gradients"}) == R"(+ gradients 131080192
+ gradients 50348032
+ gradients 133169152
+ gradients 131080192
- gradients
compute: copy gradients into buckets
data: gradients all_reduce 131072000 <- compute
+ gradients 50348032
- gradients
compute: copy gradients into buckets
data: gradients all_reduce 16785408 <- compute
data: gradients all_reduce 16777216 <- compute
data: gradients all_reduce 16785408 <- compute
+ gradients 133169152
- gradients
compute: copy gradients into buckets
data: gradients all_reduce 133177344 <- compute
compute: copy gradients out of buckets <- data
- gradients
- gradients
- gradients
)");
}

TEST_CASE("Gradients that are views of buckets are copied there by the pass that reduces them",
          "[lower]") {
  strategy::Plan plan = replicated(2);
  plan.gradient_sync.live_in_buckets = true;
  CHECK(Traced(plan).of({"gradients"}) == R"(+ gradients 131080192
+ gradients 50348032
+ gradients 133169152
+ gradients 131080192
- gradients
- gradients
data: gradients all_reduce 131072000 <- compute
+ gradients 50348032
- gradients
- gradients
data: gradients all_reduce 16785408 <- compute
data: gradients all_reduce 16777216 <- compute
data: gradients all_reduce 16785408 <- compute
+ gradients 133169152
- gradients
- gradients
data: gradients all_reduce 133177344 <- compute
)");
}

}  // namespace stepcast::lower::test
