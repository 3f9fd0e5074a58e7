// Gradients of parameters that several groups hold.
#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {

TEST_CASE("Norm weights are summed over tensor ranks, tied tables over both ends", "[lower]") {
  strategy::Plan plan = small_plan({.tensor = 2, .pipeline = 2, .micro_batches = 4});
  plan.model.tied_embeddings = true;
  plan.shard.sequence_parallel = true;
  const Traced traced(plan);
  CHECK(traced.of({"norm gradients", "tied"}) == R"(compute: norm gradients 2113536
compute: tied embedding gradients 65536000
)");
}

}  // namespace stepcast::lower::test
