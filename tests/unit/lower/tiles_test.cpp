// Linears in tiles.
#include "catch.hpp"
#include "traced.h"

using stepcast::lower::test::Traced;

TEST_CASE("A linear's tiles are gathered, used and given up in turn", "[lower]") {
  const Traced traced(
      R"("system": "deepspeed", "parallelism": {"sharding": "zero3"}, "memory": {"offload": {"optimizer": "cpu", "parameters": "cpu", "tiling": 2}}, "workload": {"sequence_length": 512, "global_batch": 8, "micro_batch": 1})");
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
