// Forward passes that run again.
#include "catch.hpp"
#include "traced.h"

using stepcast::lower::test::Traced;

TEST_CASE("Layers run forward again ahead of their backward pass", "[lower]") {
  const Traced traced(
      R"("system": "megatron-lm", "memory": {"recompute": "full"}, "workload": {"sequence_length": 512, "global_batch": 8, "micro_batch": 1})");
  CHECK(traced.of({"activations", "temporaries"}) == R"(+ activations 4096
+ forward temporaries 2097152
- forward temporaries
+ activations 1048576
+ forward temporaries 9437184
- forward temporaries
+ activations 1048576
+ forward temporaries 9437184
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
