// A linear layer split into two tiles.
#include "catch.hpp"
#include "small_unit.h"

using namespace stepcast;
using model::TensorRole;
using test::SmallUnit;

namespace {

SmallUnit tiles() {
  SmallUnit unit;
  unit.linear("fc", TensorRole::none, 32, 16);
  unit.plan.offload.tiling = 2;
  return unit;
}

}  // namespace

TEST_CASE("Each tile is whole while its product runs, and results are put together", "[lower]") {
  CHECK(tiles().forward() ==
        "tile of 256, fc tile, tile of 256, fc tile, tile of 0, fc tiles together");
}

TEST_CASE("Back, each tile makes both gradients, and input gradients are added up", "[lower]") {
  CHECK(tiles().backward() ==
        "tile of 256, fc tile dgrad, fc tile wgrad, tile of 256, fc tile dgrad, "
        "fc add input gradients, fc tile wgrad, tile of 0");
}

TEST_CASE("A tile knows the size of the next one of its pass", "[lower]") {
  SmallUnit unit = tiles();
  const lower::Passes passes = unit.build();
  CHECK(passes.forward[0].next_elements == 256);
  CHECK(passes.forward[2].next_elements == 0);
  CHECK_FALSE(passes.forward[0].makes_gradient);
  CHECK(passes.backward[0].makes_gradient);
  CHECK(passes.arrays.front().tiled);
}

TEST_CASE("Linears stay whole whose tiles would never be sharded, or that are frozen", "[lower]") {
  SmallUnit small = tiles();
  small.plan.parameter_gather.persistent_elements = 256;
  CHECK(small.forward() == "fc");
  SmallUnit frozen = tiles();
  frozen.graph.operators[0].frozen = 1;
  CHECK(frozen.forward() == "fc");
}
