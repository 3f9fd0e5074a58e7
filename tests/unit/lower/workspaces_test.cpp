// Scratch memory of libraries.
#include "catch.hpp"
#include "traced.h"

using stepcast::lower::test::Traced;

TEST_CASE("Workspaces of libraries stand", "[lower]") {
  const Traced traced(
      R"("system": "megatron-lm", "workload": {"sequence_length": 512, "global_batch": 8, "micro_batch": 1})");
  CHECK(traced.of({"workspace", "scores", "empty"}) == R"(= GEMM workspace 100663296
= empty weight gradients 25165824
)");
}
