// The optimizer on the device.
#include "catch.hpp"
#include "traced.h"

using stepcast::lower::test::Traced;

TEST_CASE("fp32 copies of 16-bit gradients stand until the next step", "[lower]") {
  const Traced traced(
      R"("system": "megatron-lm-2021", "workload": {"sequence_length": 512, "global_batch": 8, "micro_batch": 1, "precision": "fp16"})");
  CHECK(traced.of({"fp32", "optimizer", "main", "unscale", "zero"}) ==
        R"(= optimizer states 729890816
- fp32 gradients
+ fp32 gradients 364945408
compute: main gradients
compute: unscale gradients
compute: optimizer
compute: zero gradients
)");
}

TEST_CASE("DeepSpeed's live for the step alone", "[lower]") {
  const Traced traced(
      R"("system": "deepspeed", "parallelism": {"sharding": "zero1"}, "workload": {"sequence_length": 512, "global_batch": 8, "micro_batch": 1})");
  CHECK(traced.of({"fp32", "optimizer", "main", "zero", "flat"}) == R"(= optimizer states 91236352
+ flat gradients 22809088
+ fp32 gradients 45618176
compute: main gradients
- flat gradients
compute: optimizer
- fp32 gradients
compute: zero gradients
)");
}
