// The optimizer on the host's CPUs.
#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {

TEST_CASE("Gradients down, Adam, parameters up, unit by unit", "[lower]") {
  strategy::Plan plan = small_plan();
  run_eagerly(plan);
  share(plan, strategy::DataComm::shard_grads);
  keep_narrow_gradients(plan);
  plan.offload.optimizer.to = plan.offload.gradients.to = OffloadTarget::cpu;
  const Traced traced(plan);
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

}  // namespace stepcast::lower::test
