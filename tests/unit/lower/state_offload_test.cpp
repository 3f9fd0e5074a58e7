// States that live outside the GPU.
#include "catch.hpp"
#include "traced.h"

using stepcast::lower::test::Traced;

TEST_CASE("Gradients leave as they are reduced, parameters come ahead of their gather", "[lower]") {
  const Traced traced(
      R"("system": "deepspeed", "parallelism": {"sharding": "zero3"}, "memory": {"offload": {"optimizer": "cpu", "parameters": "cpu"}}, "workload": {"sequence_length": 512, "global_batch": 8, "micro_batch": 1})");
  CHECK(traced.of({"device:", "host:", "=", "fetched"}) == R"(= small parameters, whole 17920
= parameters 22806528
= optimizer states 136854528
= fp32 gradients 45618176
= gradient buckets 182472704
= GEMM workspace 67108864
+ fetched parameters 8323072
host to device: parameters 8323072 <- compute of the step before, device to host of the step before, compute of the step before, CPU of the step before
- fetched parameters
+ fetched parameters 3145728
host to device: parameters 3145728 <- compute
+ fetched parameters 3145728
host to device: parameters 3145728 <- compute
- fetched parameters
- fetched parameters
+ fetched parameters 8192000
host to device: parameters 8192000 <- compute, all-gather
- fetched parameters
device to host: gradients 22809088 <- reduce-scatter
)");
}

TEST_CASE("What is stepped on the device comes back", "[lower]") {
  const Traced traced(
      R"("system": "deepspeed", "parallelism": {"sharding": "zero2"}, "memory": {"offload": {"optimizer": {"to": "cpu", "ratio": 0.5}, "gradients": "cpu"}}, "workload": {"sequence_length": 512, "global_batch": 8, "micro_batch": 1})");
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
