// What a Megatron-LM chunk holds on to.
#include "catch.hpp"
#include "traced.h"

using stepcast::lower::test::Traced;

TEST_CASE("A chunk holds its last input and that one's gradient until the next step", "[lower]") {
  const Traced traced(
      R"("system": "megatron-lm", "parallelism": {"pipeline": 2}, "workload": {"sequence_length": 512, "global_batch": 16, "micro_batch": 1})",
      1);
  CHECK(traced.of({"last input", "compute: pass"}) == R"(- last input and its gradient
compute: pass
compute: pass
compute: pass
compute: pass
compute: pass
compute: pass
compute: pass
compute: pass
compute: pass
compute: pass
compute: pass
compute: pass
compute: pass
compute: pass
compute: pass
compute: pass
+ last input and its gradient 2097152
)");
}
