// Gradients of units that are reduced whole.
#include "catch.hpp"
#include "traced.h"

using stepcast::lower::test::Traced;

TEST_CASE("A unit's gradients are made behind its gather and reduced behind its backward pass",
          "[lower]") {
  const Traced traced(
      R"("system": "pytorch-fsdp2", "parallelism": {"sharding": "zero3"}, "workload": {"sequence_length": 512, "global_batch": 8, "micro_batch": 1})");
  CHECK(traced.of({"gradients"}) == R"(+ unsharded gradients 65540096
+ gradients to reduce 131080192
compute: copy gradients in
- unsharded gradients
+ sharded gradients 16385024
reduce-scatter: gradients reduce_scatter 131080192 <- all-gather, compute
+ unsharded gradients 25174016
- gradients to reduce
+ gradients to reduce 50348032
compute: copy gradients in <- reduce-scatter
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
+ gradients to reduce 133169152
compute: copy gradients in <- reduce-scatter
- unsharded gradients
+ sharded gradients 16646144
reduce-scatter: gradients reduce_scatter 133169152 <- all-gather, compute
- gradients to reduce
- sharded gradients
- sharded gradients
- sharded gradients
- sharded gradients
)");
}

TEST_CASE("Between stages they are reduced behind the last backward pass", "[lower]") {
  const Traced traced(
      R"("system": "torchtitan", "parallelism": {"sharding": "zero3", "pipeline": 2}, "workload": {"sequence_length": 512, "global_batch": 16, "micro_batch": 1})");
  CHECK(traced.of({"gradients", "send", "receive"}) == R"(compute: send
compute: send and receive
+ unsharded gradients 25174016
+ accumulated gradients 50348032
- unsharded gradients
+ unsharded gradients 66584576
+ accumulated gradients 133169152
- unsharded gradients
compute: send and receive
+ unsharded gradients 25174016
- unsharded gradients
+ unsharded gradients 66584576
- unsharded gradients
compute: send and receive
+ unsharded gradients 25174016
- unsharded gradients
+ unsharded gradients 66584576
- unsharded gradients
compute: receive
+ unsharded gradients 25174016
- unsharded gradients
+ unsharded gradients 66584576
- unsharded gradients
+ gradients to reduce 50348032
compute: copy gradients in
- accumulated gradients
+ sharded gradients 12587008
reduce-scatter: gradients reduce_scatter 50348032 <- all-gather, compute
- gradients to reduce
+ gradients to reduce 133169152
compute: copy gradients in <- reduce-scatter
- accumulated gradients
+ sharded gradients 33292288
reduce-scatter: gradients reduce_scatter 133169152 <- all-gather, compute
- gradients to reduce
- sharded gradients
- sharded gradients
)");
}

TEST_CASE("DeepSpeed reduces them in buckets", "[lower]") {
  const Traced traced(
      R"("system": "deepspeed", "parallelism": {"sharding": "zero3"}, "workload": {"sequence_length": 512, "global_batch": 16, "micro_batch": 1})");
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
