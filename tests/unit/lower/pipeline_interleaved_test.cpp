// Messages of interleaved stages that hold the compute stream up.
#include "catch.hpp"
#include "traced.h"

using stepcast::lower::test::Traced;

TEST_CASE("Four messages go together in the steady phase", "[lower]") {
  const Traced traced(
      R"("system": "megatron-lm", "parallelism": {"pipeline": 2, "virtual_pipeline": 2, "overlap": {"pipeline": false}}, "workload": {"sequence_length": 512, "global_batch": 16, "micro_batch": 1})",
      0, {.layers = 4, .tied = false});
  CHECK(traced.of({"send", "receive"}) == R"(compute: send
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: receive
)");
}

TEST_CASE("The last of interleaved stages begins with two receives", "[lower]") {
  const Traced traced(
      R"("system": "megatron-lm", "parallelism": {"pipeline": 2, "virtual_pipeline": 2, "overlap": {"pipeline": false}}, "workload": {"sequence_length": 512, "global_batch": 16, "micro_batch": 1})",
      1, {.layers = 4, .tied = false});
  CHECK(traced.of({"send", "receive"}) == R"(compute: receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send
)");
}
