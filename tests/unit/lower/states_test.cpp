// States that stand from step to step.
#include "catch.hpp"
#include "traced.h"

using stepcast::lower::test::Traced;

TEST_CASE("States stand by kind: bytes are those of ZeRO-1 over eight ranks", "[lower]") {
  const Traced traced(
      R"("system": "megatron-lm", "parallelism": {"sharding": "zero1"}, "workload": {"sequence_length": 512, "global_batch": 8, "micro_batch": 1})");
  CHECK(traced.of({"= "}) == R"(= parameters 182472704
= gradients 364945408
= master weights 45618176
= optimizer states 91236352
= GEMM workspace 100663296
= empty weight gradients 25165824
)");
}
