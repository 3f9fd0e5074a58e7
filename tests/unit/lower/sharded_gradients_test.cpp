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

// A layer has gradients of 3.1, 1.0, 4.2 and 4.2 million elements, which come last to first; those
// of the tables, 33 million each, are larger than the bucket and reduced by themselves.
TEST_CASE("A bucket is joined in the pass whose gradient would overfill it", "[lower]") {
  strategy::Plan plan = small_plan({.layers = 1});
  run_eagerly(plan);
  share_modules(plan);
  plan.gradient_sync.bucket_elements = 9'000'000;
  const Traced traced(plan);
  CHECK(traced.of({"joined", "gradients reduce"}) ==
        R"(reduce-scatter: gradients reduce_scatter 65536000 <- all-gather, compute
+ joined gradients of a bucket 16785408
- joined gradients of a bucket
reduce-scatter: gradients reduce_scatter 16785408 <- all-gather, compute
+ joined gradients of a bucket 9441280
- joined gradients of a bucket
reduce-scatter: gradients reduce_scatter 9441280 <- all-gather, compute
reduce-scatter: gradients reduce_scatter 65536000 <- all-gather, compute
)");
}

TEST_CASE("A single rank casts its units and copies their gradients", "[lower]") {
  strategy::Plan plan = small_plan({.layers = 1, .tensor = 8, .micro_batches = 2});
  run_eagerly(plan);
  share_units(plan);
  plan.shard_ranks = 1;
  plan.parameter_gather.alone = true;
  const Traced traced(plan);
  CHECK(traced.of({"gradients", "parameters", "gather"}) == R"(= parameters 41181184
+ cast parameters 8192000
+ unsharded parameters 17436672
- cast parameters
+ cast parameters 1048576
+ unsharded parameters 3153920
- cast parameters
- unsharded parameters
+ unsharded gradients 8196096
+ cast parameters 1048576
+ unsharded parameters 3153920
- cast parameters
+ unsharded gradients 3153920
- unsharded parameters
+ gradients to reduce 6307840
compute: copy gradients in
- unsharded gradients
+ sharded gradients 6307840
reduce-scatter: copy gradients out <- compute
+ unsharded gradients 9240576
- unsharded parameters
- gradients to reduce
+ gradients to reduce 34873344
compute: copy gradients in <- reduce-scatter
- unsharded gradients
- unsharded gradients
+ sharded gradients 34873344
reduce-scatter: copy gradients out <- compute
- gradients to reduce
+ cast parameters 8192000
+ unsharded parameters 17436672
- cast parameters
+ cast parameters 1048576
+ unsharded parameters 3153920
- cast parameters
- unsharded parameters
+ unsharded gradients 8196096
+ cast parameters 1048576
+ unsharded parameters 3153920
- cast parameters
+ unsharded gradients 3153920
- unsharded parameters
+ gradients to reduce 6307840
compute: copy gradients in <- reduce-scatter
- unsharded gradients
+ reduced gradients 6307840
reduce-scatter: copy gradients out <- compute
- reduced gradients
+ unsharded gradients 9240576
- unsharded parameters
- gradients to reduce
+ gradients to reduce 34873344
compute: copy gradients in <- reduce-scatter
- unsharded gradients
- unsharded gradients
+ reduced gradients 34873344
reduce-scatter: copy gradients out <- compute
- reduced gradients
- gradients to reduce
- sharded gradients
- sharded gradients
)");
}

// torch since 2.6: those of the first micro-batch are the gradients of the shards themselves.
TEST_CASE("What replicas sum stands to the end of the backward pass", "[lower]") {
  strategy::Plan plan = small_plan({.layers = 1, .micro_batches = 2});
  run_eagerly(plan);
  share_units(plan);
  plan.shard_ranks /= 2;
  plan.replicas = 2;
  const Traced traced(plan);
  CHECK(traced.of({"reduced gradients"}) == R"(+ reduced gradients 12587008
+ reduced gradients 66062336
- reduced gradients
- reduced gradients
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
+ joined gradients of a bucket 182472704
reduce-scatter: gradients reduce_scatter 182472704 <- all-gather, compute
- joined gradients of a bucket
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
+ joined gradients of a bucket 182472704
reduce-scatter: gradients reduce_scatter 182472704 <- all-gather, compute
- joined gradients of a bucket
+ flat gradients 22809088
+ fp32 gradients 45618176
compute: main gradients <- reduce-scatter
- flat gradients
- fp32 gradients
compute: zero gradients
)");
}

TEST_CASE("FSDP1 gathers a shard that it casts, and casts the result of a reduction", "[lower]") {
  strategy::Plan plan = small_plan();
  share(plan, strategy::DataComm::shard_all);
  plan.parameter_gather.by_units = plan.parameter_gather.overlaps = true;
  plan.parameter_gather.flat = true;
  plan.state_layout.makes_sharded_gradients = true;
  plan.precision.parameters = plan.precision.gradients = DType::fp32;
  plan.precision.reduce = DType::bf16;
  const Traced traced(plan);
  // An eighth of a layer's 12,587,008 elements and of the root's 66,062,336, in 16 and in 32 bits.
  CHECK(traced.of({"shards to gather", "reduced gradients", "+ sharded gradients"}) ==
        R"(+ shards to gather 16515584
- shards to gather
+ shards to gather 3146752
- shards to gather
+ shards to gather 3146752
- shards to gather
+ reduced gradients 3146752
+ sharded gradients 6293504
- reduced gradients
+ reduced gradients 3146752
+ sharded gradients 6293504
- reduced gradients
+ reduced gradients 16515584
+ sharded gradients 33031168
- reduced gradients
)");
}

TEST_CASE(
    "A flat parameter's gradient is joined, and its shard may stand until the next forward pass",
    "[lower]") {
  strategy::Plan plan = small_plan({.layers = 1});
  run_eagerly(plan);
  share_units(plan);
  plan.parameter_gather.flat = plan.state_layout.sharded_gradients_stand = true;
  const Traced traced(plan);
  CHECK(traced.of({"gradient", "compute: pass"}) == R"(- sharded gradients
- sharded gradients
compute: pass <- all-gather
compute: pass <- all-gather
compute: pass
+ unsharded gradients 65540096
compute: pass
+ unsharded gradients 25174016
compute: pass <- all-gather
+ flat gradient 25174016
all-gather: join gradients <- compute
- unsharded gradients
+ gradients to reduce 50348032
reduce-scatter: copy gradients in <- compute, all-gather
- flat gradient
+ sharded gradients 6293504
reduce-scatter: gradients reduce_scatter 50348032 <- all-gather, compute
- gradients to reduce
+ unsharded gradients 66584576
compute: pass
+ flat gradient 132124672
all-gather: join gradients <- compute
- unsharded gradients
- unsharded gradients
+ gradients to reduce 264249344
reduce-scatter: copy gradients in <- compute, all-gather
- flat gradient
+ sharded gradients 33031168
reduce-scatter: gradients reduce_scatter 264249344 <- all-gather, compute
- gradients to reduce
compute: gradient norm <- reduce-scatter
compute: gradient norm all_reduce 4
)");
}

TEST_CASE("A loss in chunks adds up and reduces the head's gradient within the forward pass",
          "[lower]") {
  strategy::Plan plan = small_plan({.layers = 1});
  run_eagerly(plan);
  share_units(plan);
  plan.parameter_gather.ends_join_root = false;
  plan.style.loss = plan.loss_form.kernel = LossKernel::chunked;
  const Traced traced(plan);
  CHECK(traced.of({"gradient", "compute: pass", "parameters all_gather"}) ==
        R"(all-gather: parameters all_gather 66584576 <- compute of the step before
compute: pass <- all-gather
compute: pass
all-gather: parameters all_gather 25174016 <- compute
compute: pass <- all-gather
compute: pass
all-gather: parameters all_gather 65540096 <- compute
all-gather: parameters all_gather 65540096
compute: pass <- all-gather
+ accumulated gradients 131072000
+ gradients of a chunk 196608000
compute: pass
- gradients of a chunk
+ gradients to reduce 131072000
compute: copy gradients in
- accumulated gradients
+ sharded gradients 16385024
reduce-scatter: gradients reduce_scatter 131072000 <- all-gather, compute
all-gather: parameters all_gather 65540096 <- compute, reduce-scatter
compute: pass <- all-gather
compute: pass
all-gather: parameters all_gather 25174016 <- compute, reduce-scatter
compute: pass
- gradients to reduce
reduce-scatter: gradients reduce_scatter 8192 <- compute
compute: pass <- reduce-scatter, all-gather
all-gather: parameters all_gather 66584576 <- compute, reduce-scatter
+ unsharded gradients 25174016
compute: pass
+ gradients to reduce 50348032
compute: copy gradients in <- reduce-scatter
- unsharded gradients
+ sharded gradients 6293504
reduce-scatter: gradients reduce_scatter 50348032 <- all-gather, compute
compute: pass <- all-gather
+ unsharded gradients 66584576
compute: pass
- gradients to reduce
+ gradients to reduce 133169152
compute: copy gradients in <- reduce-scatter
- unsharded gradients
+ sharded gradients 16646144
reduce-scatter: gradients reduce_scatter 133169152 <- all-gather, compute
- gradients to reduce
compute: gradient norm <- reduce-scatter
compute: gradient norm all_reduce 4
- sharded gradients
- sharded gradients
- sharded gradients
)");
}

}  // namespace stepcast::lower::test
