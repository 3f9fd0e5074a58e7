// Model states outside the GPU.
#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {

TEST_CASE("Gradients leave as they are reduced, parameters come ahead of their gather", "[lower]") {
  strategy::Plan plan = small_plan();
  run_eagerly(plan);
  share_modules(plan);
  plan.offload.optimizer.to = plan.offload.gradients.to = OffloadTarget::cpu;
  plan.offload.parameters.to = OffloadTarget::cpu;
  const Traced traced(plan);
  CHECK(traced.of({"device:", "host:", "=", "fetched"}) == R"(= small parameters, whole 17920
= parameters 22806528
= optimizer states 136854528
= fp32 gradients 45618176
= gradient buckets 1000000000
= GEMM workspace 67108864
+ fetched parameters 12517376
host to device: parameters 12517376 <- compute of the step before, device to host of the step before, compute of the step before, CPU of the step before
- fetched parameters
+ fetched parameters 10289152
host to device: parameters 10289152 <- all-gather
- fetched parameters
device to host: gradients 22809088 <- reduce-scatter
)");
}

TEST_CASE("What is stepped on the device comes back", "[lower]") {
  strategy::Plan plan = small_plan();
  run_eagerly(plan);
  share(plan, strategy::DataComm::shard_grads);
  keep_narrow_gradients(plan);
  plan.offload.optimizer = {OffloadTarget::cpu, 0.5};
  plan.offload.gradients.to = OffloadTarget::cpu;
  const Traced traced(plan);
  CHECK(traced.of({"device:", "host:", "way"}) == R"(+ gradients on their way 22809088
device to host: gradients 22809088 <- compute
- gradients on their way
host to device: gradients 11404544 <- device to host
host to device: updated parameters 4161536 <- CPU
host to device: updated parameters 1573376 <- CPU
host to device: updated parameters 1573376 <- CPU
host to device: updated parameters 4096256 <- CPU
)");
}

}  // namespace stepcast::lower::test
