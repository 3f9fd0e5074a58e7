// Vocabulary parallelism over all stages.
#include "catch.hpp"
#include "traced.h"

using stepcast::lower::test::Traced;

TEST_CASE("Every stage runs its rows for every micro-batch", "[lower]") {
  const Traced traced(
      R"("system": "zero-bubble", "parallelism": {"pipeline": 2, "schedule": "1f1b+vocab_1"}, "workload": {"sequence_length": 512, "global_batch": 16, "micro_batch": 1})");
  CHECK(traced.of({"softmax statistics", "vocabulary passes", "output layer", "partial",
                   "last output", "embedded"}) ==
        R"(embedded tokens: embedded tokens 1048576 <- compute
embedded tokens: embedded tokens 1048576 <- compute
compute: pass <- embedded tokens
last output: last output 1048576 <- compute
+ vocabulary passes 33816576
compute: pass <- last output
softmax statistics: softmax statistics 2048 <- compute
softmax statistics: softmax statistics 2048 <- compute
softmax statistics: softmax statistics 2048 <- compute
embedded tokens: embedded tokens 1048576 <- compute
compute: pass <- embedded tokens
+ partial input gradient 1048576
compute: pass <- softmax statistics
- vocabulary passes
output layer's gradient: output layer's gradient 1048576 <- compute
- partial input gradient
last output: last output 1048576 <- compute
+ vocabulary passes 33816576
compute: pass <- last output
softmax statistics: softmax statistics 2048 <- compute
softmax statistics: softmax statistics 2048 <- compute
softmax statistics: softmax statistics 2048 <- compute
embedded tokens: embedded tokens 1048576 <- compute
compute: pass <- embedded tokens
+ partial input gradient 1048576
compute: pass <- softmax statistics
- vocabulary passes
output layer's gradient: output layer's gradient 1048576 <- compute
- partial input gradient
last output: last output 1048576 <- compute
+ vocabulary passes 33816576
compute: pass <- last output
softmax statistics: softmax statistics 2048 <- compute
softmax statistics: softmax statistics 2048 <- compute
softmax statistics: softmax statistics 2048 <- compute
compute: pass <- embedded tokens
gradient of embedded tokens: gradient of embedded tokens 1048576 <- compute
+ partial input gradient 1048576
compute: pass <- softmax statistics
- vocabulary passes
output layer's gradient: output layer's gradient 1048576 <- compute
- partial input gradient
last output: last output 1048576 <- compute
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
