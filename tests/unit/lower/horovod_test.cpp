// Horovod's background thread.
#include "catch.hpp"
#include "traced.h"

using stepcast::lower::test::Traced;

TEST_CASE("Gradients leave at the background thread's ticks through the fusion buffer", "[lower]") {
  const Traced traced(
      R"("system": {"use": "horovod", "cycle_time": "100 us"}, "workload": {"sequence_length": 512, "global_batch": 8, "micro_batch": 1})");
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
