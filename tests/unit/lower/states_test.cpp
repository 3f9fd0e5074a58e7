// Model states that are kept from step to step.
#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {

TEST_CASE("States stand by kind: bytes are those of ZeRO-1 over eight ranks", "[lower]") {
  strategy::Plan plan = small_plan();
  share(plan, strategy::DataComm::shard_states);
  plan.accumulation.in_product = plan.accumulation.empty_gradients_stand = true;
  plan.device_memory.layer_workspace = true;
  const Traced traced(plan);
  CHECK(traced.of({"= "}) == R"(= parameters 182472704
= gradients 364945408
= master weights 45618176
= optimizer states 91236352
= GEMM workspace 100663296
= empty weight gradients 25165824
)");
}

}  // namespace stepcast::lower::test
