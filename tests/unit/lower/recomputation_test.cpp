// Recomputed forward passes.
#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {

TEST_CASE("Layers run forward again ahead of their backward pass", "[lower]") {
  strategy::Plan plan = small_plan();
  plan.accumulation.in_product = plan.accumulation.empty_gradients_stand = true;
  plan.recompute.kind = RecomputeKind::full;
  const Traced traced(plan);
  CHECK(traced.of({"activations", "temporaries"}) == R"(+ activations 4096
+ forward temporaries 2097152
- forward temporaries
+ activations 1048576
+ forward temporaries 10485760
- forward temporaries
+ activations 1048576
+ forward temporaries 10485760
- forward temporaries
+ activations 67633152
+ forward temporaries 32770048
- forward temporaries
+ backward temporaries 33816576
- backward temporaries
- activations
+ recomputed activations 15745024
+ forward temporaries 2097152
- forward temporaries
+ backward temporaries 5242880
- backward temporaries
- activations
- recomputed activations
+ recomputed activations 15745024
+ forward temporaries 2097152
- forward temporaries
+ backward temporaries 5242880
- backward temporaries
- activations
- recomputed activations
+ backward temporaries 66584576
- backward temporaries
- activations
)");
}

}  // namespace stepcast::lower::test
