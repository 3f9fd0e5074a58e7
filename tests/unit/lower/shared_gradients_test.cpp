// Gradients of parameters that several groups hold.
#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {

// Positions are added ahead of the cut by tokens, so every tensor rank has the whole gradient of
// their table (megatron-core 0.16.1, models/common/embeddings/language_model_embedding.py:114).
TEST_CASE("Norm weights are summed over tensor ranks, tied tables over both ends", "[lower]") {
  strategy::Plan plan = small_plan({.tensor = 2, .pipeline = 2, .micro_batches = 4});
  plan.model.tied_embeddings = true;
  plan.shard.sequence_parallel = true;
  const Traced traced(plan);
  CHECK(traced.of({"norm gradients", "tied"}) == R"(compute: norm gradients 16384
compute: tied embedding gradients 65536000
)");
}

}  // namespace stepcast::lower::test
