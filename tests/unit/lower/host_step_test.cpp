// The optimizer on the CPUs.
#include "catch.hpp"
#include "traced.h"

using stepcast::lower::test::Traced;

TEST_CASE("Gradients down, Adam, parameters up, unit by unit", "[lower]") {
  const Traced traced(
      R"("system": "deepspeed", "parallelism": {"sharding": "zero2"}, "memory": {"offload": {"optimizer": "cpu"}}, "workload": {"sequence_length": 512, "global_batch": 8, "micro_batch": 1})");
  CHECK(traced.of({"CPU", "updated", "host waits"}) == R"(host waits for compute
CPU: CPU Adam 124846080 <- compute, device to host
host to device: updated parameters 8323072 <- CPU
CPU: CPU Adam 47201280
host to device: updated parameters 3146752 <- CPU
CPU: CPU Adam 47201280
host to device: updated parameters 3146752 <- CPU
CPU: CPU Adam 122887680
host to device: updated parameters 8192512 <- CPU
host waits for CPU
)");
}
