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
+ fp32 gradients 45618176
compute: main gradients
compute: optimizer
- fp32 gradients
compute: zero gradients
)");
}

TEST_CASE(
    "The norm of fp32 copies: all live together, then gradients are flat before they are wide",
    "[lower]") {
  strategy::Plan plan = small_plan({.layers = 1});
  keep_narrow_gradients(plan);
  plan.state_layout.gradients_stand = false;
  plan.optimizer_step.norm_widens = plan.optimizer_step.gives_up_narrow = true;
  plan.optimizer_step.zeroes_gradients = false;
  const Traced traced(plan);
  CHECK(traced.of({"norm", "flat", "fp32", "- gradients", "optimizer"}) ==
        R"(= optimizer states 629194752
+ gradients in fp32 for the norm 131072000
+ gradients in fp32 for the norm 2097152
+ gradients in fp32 for the norm 4096
+ gradients in fp32 for the norm 4096
+ gradients in fp32 for the norm 12582912
+ gradients in fp32 for the norm 4194304
+ gradients in fp32 for the norm 4096
+ gradients in fp32 for the norm 4096
+ gradients in fp32 for the norm 16777216
+ gradients in fp32 for the norm 16777216
+ gradients in fp32 for the norm 4096
+ gradients in fp32 for the norm 4096
+ gradients in fp32 for the norm 131072000
- gradients in fp32 for the norm
- gradients in fp32 for the norm
- gradients in fp32 for the norm
- gradients in fp32 for the norm
- gradients in fp32 for the norm
- gradients in fp32 for the norm
- gradients in fp32 for the norm
- gradients in fp32 for the norm
- gradients in fp32 for the norm
- gradients in fp32 for the norm
- gradients in fp32 for the norm
- gradients in fp32 for the norm
- gradients in fp32 for the norm
+ flat gradients 157298688
- gradients
- gradients
- gradients
+ fp32 gradients 314597376
- flat gradients
compute: gradient norm
compute: gradient norm all_reduce 4
compute: optimizer
- fp32 gradients
)");
}

}  // namespace stepcast::lower::test
