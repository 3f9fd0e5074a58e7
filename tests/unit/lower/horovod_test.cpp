// Horovod's background thread.
#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {

TEST_CASE("Gradients leave at the background thread's ticks through the fusion buffer", "[lower]") {
  strategy::Plan plan = small_plan();
  plan.state_layout.gradients_stand = false;
  strategy::GradientSync& sync = plan.gradient_sync;
  sync.overlaps = sync.sends_as_filled = true;
  sync.storage = BucketStorage::standing;
  sync.cycle_time = Time(10'000'000);  // 10 us: less than any unit's backward pass
  const Traced traced(plan);
  CHECK(traced.of({"cycle", "gradients"}) == R"(+ gradients 131080192
background thread: wait for the next cycle <- compute
data: copy gradients into the fusion buffer <- background thread
data: gradients all_reduce 131080192
data: copy gradients out of the fusion buffer
+ gradients 50348032
background thread: wait for the next cycle <- compute
data: copy gradients into the fusion buffer <- background thread
data: gradients all_reduce 50348032
data: copy gradients out of the fusion buffer
+ gradients 50348032
background thread: wait for the next cycle <- compute
data: copy gradients into the fusion buffer <- background thread
data: gradients all_reduce 50348032
data: copy gradients out of the fusion buffer
+ gradients 133169152
background thread: wait for the next cycle <- compute
data: copy gradients into the fusion buffer <- background thread
data: gradients all_reduce 133169152
data: copy gradients out of the fusion buffer
- gradients
- gradients
- gradients
- gradients
)");
}

}  // namespace stepcast::lower::test
