// Gradients in buckets.
#include "catch.hpp"
#include "traced.h"

using stepcast::lower::test::Traced;

TEST_CASE("DDP's buckets hold whole arrays, last to first, the first one smaller", "[lower]") {
  const Traced traced(
      R"("system": "pytorch-ddp", "parallelism": {"accumulation": {"reduce": "each"}}, "workload": {"sequence_length": 512, "global_batch": 16, "micro_batch": 1})");
  CHECK(traced.of({"gradients", "gradient buckets"}) == R"(= gradient buckets 364945408
+ gradients 131080192
compute: copy gradients into buckets
data: gradients all_reduce 131072000 <- compute
+ gradients 50348032
compute: copy gradients into buckets
data: gradients all_reduce 33562624 <- compute
+ gradients 50348032
compute: copy gradients into buckets
data: gradients all_reduce 33570816 <- compute
data: gradients all_reduce 33562624 <- compute
+ gradients 133169152
compute: copy gradients into buckets
data: gradients all_reduce 133177344 <- compute
compute: copy gradients into buckets
data: gradients all_reduce 131072000 <- compute
compute: copy gradients into buckets
data: gradients all_reduce 33562624 <- compute
compute: copy gradients into buckets
data: gradients all_reduce 33570816 <- compute
data: gradients all_reduce 33562624 <- compute
compute: copy gradients into buckets
data: gradients all_reduce 133177344 <- compute
compute: copy gradients out of buckets <- data
- gradients
- gradients
- gradients
- gradients
)");
}

TEST_CASE("DeepSpeed reduces what is left at the end of a backward pass", "[lower]") {
  const Traced traced(
      R"("system": "deepspeed", "parallelism": {"sharding": "zero2"}, "workload": {"sequence_length": 512, "global_batch": 8, "micro_batch": 1})");
  CHECK(traced.of({"gradients", "gradient buckets"}) == R"(= gradients 22809088
= gradient buckets 182472704
compute: gradients all_reduce 182472704
+ flat gradients 22809088
+ fp32 gradients 45618176
compute: main gradients
- flat gradients
- fp32 gradients
compute: zero gradients
)");
}

TEST_CASE("Interleaved stages reduce a chunk together", "[lower]") {
  const Traced traced(
      R"("system": "megatron-lm", "parallelism": {"pipeline": 2, "virtual_pipeline": 2, "sharding": "zero1", "overlap": {"grad_reduce": true, "pipeline": true}}, "workload": {"sequence_length": 512, "global_batch": 16, "micro_batch": 1})",
      1, {.layers = 4, .tied = false});
  CHECK(traced.of({"data:", "send backward"}) == R"(send backward: send backward <- compute
send backward: send backward <- compute
send backward: send backward <- compute
send backward: send backward <- compute
send backward: send backward <- compute
send backward: send backward <- compute
data: gradients reduce_scatter 181428224 <- compute
send backward: send backward <- compute
send backward: send backward <- compute
data: gradients reduce_scatter 50348032 <- compute
)");
}
