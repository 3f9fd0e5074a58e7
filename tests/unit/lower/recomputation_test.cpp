// Recomputed forward passes.
#include "../model/models.h"
#include "catch.hpp"
#include "lower/tensors/redone.h"
#include "muted.h"
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

// torch.distributed.pipelining: a call of autograd for each weight's gradient.
TEST_CASE("Of a split backward pass each weight runs its layer again", "[lower]") {
  strategy::Plan plan = small_plan({.pipeline = 2, .micro_batches = 2, .schedule = "zb_h1"});
  plan.recompute.kind = RecomputeKind::full;
  const auto recomputed = [&] {
    const program::World world = lower_small(plan, features_under_test());
    std::int64_t time = 0;
    for (const program::Task& task : world.programs[0].tasks) {
      time += task.category == program::Category::recompute ? task.duration.count() : 0;
    }
    return time;
  };
  const std::int64_t once = recomputed();
  CHECK(once > 0);
  plan.recompute.for_each_weight = true;
  constexpr int kWeights = 8;  // of a layer: four matrices and two norms with biases
  CHECK(recomputed() == (1 + kWeights) * once);
}

// The last product's result goes into the residual stream alone, which is the next layer's input.
TEST_CASE("Of the results that a policy keeps, the backward pass does not read the last product's",
          "[lower]") {
  const auto m = stepcast::test::llama("llama", 1, 1024, 16, 4, 3584, 32000);
  model::Shard shard;
  shard.sequence_length = 512;
  const auto graph = model::build_layer(m, model::LayerKind::dense, shard, model::Style{});
  Redone redone(graph.operators.size(), Redo{Redo::Kind::again});
  std::vector<std::string> unread;
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    if (graph.operators[i].gemm) {
      redone[i].kind = Redo::Kind::kept;
    }
  }
  for (const HeldTensor& held : kept_to_redo(graph, redone)) {
    if (!read_backward(graph, redone, held.made)) {
      unread.push_back(graph.operators[held.made].name);
    }
  }
  CHECK(unread == std::vector<std::string>{"fc2"});
}

}  // namespace stepcast::lower::test
