// The optimizer on the device.
#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {

TEST_CASE("fp32 copies of 16-bit gradients stand until the next step", "[lower]") {
  strategy::Plan plan = small_plan();
  strategy::Precision& types = plan.precision;
  types.products = types.parameters = types.gradients = types.reduce = DType::fp16;
  types.loss_scaling = true;
  plan.style.dtype = DType::fp16;
  plan.optimizer_step.fp32_gradients_stand = true;
  const Traced traced(plan);
  CHECK(traced.of({"fp32", "optimizer", "main", "unscale", "zero"}) ==
        R"(= optimizer states 729890816
- fp32 gradients
+ fp32 gradients 364945408
compute: main gradients
compute: unscale gradients
compute: optimizer
compute: zero gradients
)");
}

TEST_CASE("DeepSpeed's live for the step alone", "[lower]") {
  strategy::Plan plan = small_plan();
  share(plan, strategy::DataComm::shard_states);
  keep_narrow_gradients(plan);
  const Traced traced(plan);
  CHECK(traced.of({"fp32", "optimizer", "main", "zero", "flat"}) == R"(= optimizer states 91236352
+ flat gradients 22809088
+ fp32 gradients 45618176
compute: main gradients
- flat gradients
compute: optimizer
- fp32 gradients
compute: zero gradients
)");
}

}  // namespace stepcast::lower::test
