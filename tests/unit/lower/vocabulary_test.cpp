// Vocabulary parallelism across all stages.
#include <utility>
#include <vector>

#include "catch.hpp"
#include "muted.h"
#include "traced.h"

namespace stepcast::lower::test {

TEST_CASE("Every stage runs its rows for every micro-batch", "[lower]") {
  const strategy::Plan plan =
      small_plan({.pipeline = 2, .micro_batches = 4, .schedule = "1f1b+vocab_1"});
  const Traced traced(plan);
  CHECK(traced.of({"softmax statistics", "vocabulary passes", "output layer", "partial",
                   "last output", "embedded", "whole pipeline"}) ==
        R"(whole pipeline: embedded tokens 1048576 <- compute
whole pipeline: embedded tokens 1048576 <- compute
compute: pass <- whole pipeline
whole pipeline: embedded tokens 1048576 <- compute
whole pipeline: last output 1048576 <- compute
+ vocabulary passes 33816576
compute: pass <- whole pipeline
whole pipeline: softmax statistics 2048 <- compute
whole pipeline: softmax statistics 2048
whole pipeline: softmax statistics 2048
compute: pass <- whole pipeline
whole pipeline: last output 1048576 <- compute
+ partial input gradient 1048576
compute: pass <- whole pipeline
- vocabulary passes
whole pipeline: embedded tokens 1048576 <- compute
whole pipeline: output layer's gradient 1048576 <- compute
- partial input gradient
+ vocabulary passes 33816576
compute: pass <- whole pipeline
whole pipeline: softmax statistics 2048 <- compute
whole pipeline: softmax statistics 2048
whole pipeline: softmax statistics 2048
compute: pass <- whole pipeline
whole pipeline: last output 1048576 <- compute
+ partial input gradient 1048576
compute: pass <- whole pipeline
- vocabulary passes
whole pipeline: output layer's gradient 1048576 <- compute
- partial input gradient
+ vocabulary passes 33816576
compute: pass <- whole pipeline
whole pipeline: softmax statistics 2048 <- compute
whole pipeline: softmax statistics 2048
whole pipeline: softmax statistics 2048
compute: pass <- whole pipeline
whole pipeline: gradient of embedded tokens 1048576 <- compute
whole pipeline: last output 1048576 <- compute
+ partial input gradient 1048576
compute: pass <- whole pipeline
- vocabulary passes
whole pipeline: output layer's gradient 1048576 <- compute
- partial input gradient
+ vocabulary passes 33816576
compute: pass <- whole pipeline
whole pipeline: gradient of embedded tokens 1048576 <- compute
whole pipeline: softmax statistics 2048 <- compute
whole pipeline: softmax statistics 2048
whole pipeline: softmax statistics 2048
compute: pass <- whole pipeline
+ partial input gradient 1048576
compute: pass <- whole pipeline
- vocabulary passes
whole pipeline: output layer's gradient 1048576 <- compute
- partial input gradient
whole pipeline: gradient of embedded tokens 1048576 <- compute
compute: pass <- whole pipeline
whole pipeline: gradient of embedded tokens 1048576 <- compute
compute: pass <- whole pipeline
compute: pass <- whole pipeline
)");
}

// They run over one communicator, whose collectives torch issues on one stream.
TEST_CASE("All stages call the whole pipeline's collectives in one order", "[lower]") {
  using Call = std::pair<std::uint32_t, int>;  // role, micro-batch
  const auto calls_of = [](const program::Program& stage) {
    std::vector<Call> out;
    for (const program::Task& t : stage.tasks) {
      if (t.kind == program::TaskKind::collective &&
          stage.streams[t.stream].name == "whole pipeline") {
        out.emplace_back(t.communicator, t.micro_batch);
      }
    }
    return out;
  };
  for (const auto& [schedule, chunks] : {std::pair{"1f1b+vocab_1", 1},
                                         {"1f1b+vocab_2", 1},
                                         {"interlaced", 1},
                                         {"v_half+vocab_1", 2},
                                         {"v_half+vocab_2", 2}}) {
    for (const int stages : {2, 4, 8}) {
      for (const int micro_batches : {8, 13}) {
        const program::World world = lower_small(small_plan({.layers = 16,
                                                             .pipeline = stages,
                                                             .chunks = chunks,
                                                             .micro_batches = micro_batches,
                                                             .schedule = schedule}),
                                                 features_under_test());
        INFO(schedule << ", " << stages << " stages, " << micro_batches << " micro-batches");
        const std::vector<Call> first = calls_of(world.programs.front());
        // Output, three statistics, its gradient, embedded tokens and theirs.
        CHECK(first.size() == static_cast<std::size_t>(7 * micro_batches));
        for (const program::Program& stage : world.programs) {
          CHECK(calls_of(stage) == first);
        }
      }
    }
  }
}

}  // namespace stepcast::lower::test
