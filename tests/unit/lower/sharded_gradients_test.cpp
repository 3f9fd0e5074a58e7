// Gradients that are reduced unit by unit.
#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {

TEST_CASE("A unit's gradients are made behind its gather and reduced behind its backward pass",
          "[lower]") {
  strategy::Plan plan = small_plan();
  run_eagerly(plan);
  share_units(plan);
  const Traced traced(plan);
  CHECK(traced.of({"gradients"}) == R"(+ unsharded gradients 65540096
+ unsharded gradients 25174016
+ gradients to reduce 50348032
compute: copy gradients in
- unsharded gradients
+ sharded gradients 6293504
reduce-scatter: gradients reduce_scatter 50348032 <- all-gather, compute
+ unsharded gradients 25174016
- gradients to reduce
+ gradients to reduce 50348032
compute: copy gradients in <- reduce-scatter
- unsharded gradients
+ sharded gradients 6293504
reduce-scatter: gradients reduce_scatter 50348032 <- all-gather, compute
+ unsharded gradients 66584576
- gradients to reduce
+ gradients to reduce 264249344
compute: copy gradients in <- reduce-scatter
- unsharded gradients
- unsharded gradients
+ sharded gradients 33031168
reduce-scatter: gradients reduce_scatter 264249344 <- all-gather, compute
- gradients to reduce
- sharded gradients
- sharded gradients
- sharded gradients
)");
}

TEST_CASE("DeepSpeed reduces them in buckets", "[lower]") {
  strategy::Plan plan = small_plan({.micro_batches = 2});
  run_eagerly(plan);
  share_modules(plan);
  const Traced traced(plan);
  CHECK(traced.of({"gradients"}) == R"(= gradients 22809088
+ unsharded gradients 65540096
compute: copy gradients in
- unsharded gradients
+ unsharded gradients 25174016
compute: copy gradients in
- unsharded gradients
+ unsharded gradients 25174016
compute: copy gradients in
- unsharded gradients
+ unsharded gradients 66584576
compute: copy gradients in
- unsharded gradients
reduce-scatter: gradients reduce_scatter 182472704 <- all-gather, compute
+ unsharded gradients 65540096
compute: copy gradients in
- unsharded gradients
+ unsharded gradients 25174016
compute: copy gradients in
- unsharded gradients
+ unsharded gradients 25174016
compute: copy gradients in
- unsharded gradients
+ unsharded gradients 66584576
compute: copy gradients in
- unsharded gradients
reduce-scatter: gradients reduce_scatter 182472704 <- all-gather, compute
+ fp32 gradients 45618176
compute: main gradients <- reduce-scatter
- fp32 gradients
compute: zero gradients
)");
}

}  // namespace stepcast::lower::test
