// Linear layers split into tiles.
#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {

TEST_CASE("A linear's tiles are gathered, used and given up in turn", "[lower]") {
  strategy::Plan plan = small_plan();
  run_eagerly(plan);
  share_modules(plan);
  plan.offload.optimizer.to = plan.offload.gradients.to = OffloadTarget::cpu;
  plan.offload.parameters.to = OffloadTarget::cpu;
  plan.offload.tiling = 2;
  const Traced traced(plan);
  CHECK(traced.of({"gathered tile", "tile's gradient"}) == R"(+ gathered tile 3145728
+ gathered tile 3145728
- gathered tile
+ gathered tile 1048576
- gathered tile
+ gathered tile 1048576
- gathered tile
+ gathered tile 4194304
- gathered tile
+ gathered tile 4194304
- gathered tile
+ gathered tile 4194304
- gathered tile
+ gathered tile 4194304
- gathered tile
- gathered tile
+ gathered tile 3145728
+ gathered tile 3145728
- gathered tile
+ gathered tile 1048576
- gathered tile
+ gathered tile 1048576
- gathered tile
+ gathered tile 4194304
- gathered tile
+ gathered tile 4194304
- gathered tile
+ gathered tile 4194304
- gathered tile
+ gathered tile 4194304
- gathered tile
- gathered tile
+ gathered tile 4194304
+ tile's gradient 4194304
+ gathered tile 4194304
- gathered tile
- tile's gradient
+ tile's gradient 4194304
+ gathered tile 4194304
- gathered tile
- tile's gradient
+ tile's gradient 4194304
+ gathered tile 4194304
- gathered tile
- tile's gradient
+ tile's gradient 4194304
+ gathered tile 1048576
- gathered tile
- tile's gradient
+ tile's gradient 1048576
+ gathered tile 1048576
- gathered tile
- tile's gradient
+ tile's gradient 1048576
+ gathered tile 3145728
- gathered tile
- tile's gradient
+ tile's gradient 3145728
+ gathered tile 3145728
- gathered tile
- tile's gradient
+ tile's gradient 3145728
- gathered tile
- tile's gradient
+ gathered tile 4194304
+ tile's gradient 4194304
+ gathered tile 4194304
- gathered tile
- tile's gradient
+ tile's gradient 4194304
+ gathered tile 4194304
- gathered tile
- tile's gradient
+ tile's gradient 4194304
+ gathered tile 4194304
- gathered tile
- tile's gradient
+ tile's gradient 4194304
+ gathered tile 1048576
- gathered tile
- tile's gradient
+ tile's gradient 1048576
+ gathered tile 1048576
- gathered tile
- tile's gradient
+ tile's gradient 1048576
+ gathered tile 3145728
- gathered tile
- tile's gradient
+ tile's gradient 3145728
+ gathered tile 3145728
- gathered tile
- tile's gradient
+ tile's gradient 3145728
- gathered tile
- tile's gradient
)");
}

}  // namespace stepcast::lower::test
