// Gradients of parameters that other groups hold as well.
#include "catch.hpp"
#include "traced.h"

using stepcast::lower::test::Traced;

TEST_CASE("Norm weights are summed over tensor ranks, tied tables over both ends", "[lower]") {
  const Traced traced(
      R"("system": "megatron-lm", "parallelism": {"pipeline": 2, "tensor": 2, "sequence_parallel": true}, "workload": {"sequence_length": 512, "global_batch": 8, "micro_batch": 1})",
      0, {.layers = 2, .tied = true});
  CHECK(traced.of({"norm gradients", "tied"}) == R"(compute: norm gradients 2113536
compute: tied embedding gradients 65536000
)");
}
