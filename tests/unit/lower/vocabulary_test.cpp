// Vocabulary parallelism across all stages.
#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {

TEST_CASE("Every stage runs its rows for every micro-batch", "[lower]") {
  const strategy::Plan plan =
      small_plan({.pipeline = 2, .micro_batches = 4, .schedule = "1f1b+vocab_1"});
  const Traced traced(plan);
  CHECK(traced.of({"softmax statistics", "vocabulary passes", "output layer", "partial",
                   "last output", "embedded"}) ==
        R"(embedded tokens: embedded tokens 1048576 <- compute
embedded tokens: embedded tokens 1048576 <- compute
compute: pass <- embedded tokens
embedded tokens: embedded tokens 1048576 <- compute
last output: last output 1048576 <- compute
+ vocabulary passes 33816576
compute: pass <- last output
softmax statistics: softmax statistics 2048 <- compute
softmax statistics: softmax statistics 2048 <- compute
softmax statistics: softmax statistics 2048 <- compute
compute: pass <- embedded tokens
last output: last output 1048576 <- compute
+ partial input gradient 1048576
compute: pass <- softmax statistics
- vocabulary passes
output layer's gradient: output layer's gradient 1048576 <- compute
- partial input gradient
embedded tokens: embedded tokens 1048576 <- compute
+ vocabulary passes 33816576
compute: pass <- last output
softmax statistics: softmax statistics 2048 <- compute
softmax statistics: softmax statistics 2048 <- compute
softmax statistics: softmax statistics 2048 <- compute
compute: pass <- embedded tokens
last output: last output 1048576 <- compute
+ partial input gradient 1048576
compute: pass <- softmax statistics
- vocabulary passes
output layer's gradient: output layer's gradient 1048576 <- compute
- partial input gradient
+ vocabulary passes 33816576
compute: pass <- last output
softmax statistics: softmax statistics 2048 <- compute
softmax statistics: softmax statistics 2048 <- compute
softmax statistics: softmax statistics 2048 <- compute
compute: pass <- embedded tokens
gradient of embedded tokens: gradient of embedded tokens 1048576 <- compute
last output: last output 1048576 <- compute
+ partial input gradient 1048576
compute: pass <- softmax statistics
- vocabulary passes
output layer's gradient: output layer's gradient 1048576 <- compute
- partial input gradient
+ vocabulary passes 33816576
compute: pass <- last output
softmax statistics: softmax statistics 2048 <- compute
softmax statistics: softmax statistics 2048 <- compute
softmax statistics: softmax statistics 2048 <- compute
gradient of embedded tokens: gradient of embedded tokens 1048576 <- compute
compute: pass <- gradient of embedded tokens
+ partial input gradient 1048576
compute: pass <- softmax statistics
- vocabulary passes
output layer's gradient: output layer's gradient 1048576 <- compute
- partial input gradient
gradient of embedded tokens: gradient of embedded tokens 1048576 <- compute
compute: pass <- gradient of embedded tokens
gradient of embedded tokens: gradient of embedded tokens 1048576 <- compute
compute: pass <- gradient of embedded tokens
compute: pass <- gradient of embedded tokens
)");
}

}  // namespace stepcast::lower::test
