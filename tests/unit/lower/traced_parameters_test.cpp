#include <utility>

#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {

namespace {

// What a stage of one layer does whose modules are gathered as `change` says, and none of them is
// kept to be read again. The layer has weights of 3.1, 1.0, 4.2 and 4.2 million elements; the
// tables of embedding and head have 33 million each, the positions half a million.
std::string lines(const std::vector<std::string>& words, void (*change)(strategy::Plan&)) {
  strategy::Plan plan = small_plan({.layers = 1});
  run_eagerly(plan);
  share_modules(plan);
  plan.parameter_gather.reuse_elements = 0;
  change(plan);
  return Traced(plan).of(words);
}

}  // namespace

TEST_CASE(
    "DeepSpeed gathers the next parameters in one operation until they fill the bucket, and gives "
    "each up behind its module",
    "[lower]") {
  CHECK(lines({"parameters", "pass"}, [](strategy::Plan& plan) {
          plan.parameter_gather.prefetch_elements = 4'500'000;
        }) == R"(= parameters 19662336
= small parameters, whole 10752
+ gathered parameters 65536000
all-gather: parameters all_gather 65536000 <- compute of the step before
+ gathered parameters 9437184
all-gather: parameters all_gather 9437184
+ unsharded parameters 1048576
+ unsharded parameters 8388608
compute: pass <- all-gather
+ gathered parameters 16777216
all-gather: parameters all_gather 16777216 <- compute
+ gathered parameters 65536000
all-gather: parameters all_gather 65536000 <- compute
+ gathered parameters 66584576
all-gather: parameters all_gather 66584576 <- compute
compute: pass
- gathered parameters
- gathered parameters
- unsharded parameters
+ unsharded parameters 16777216
compute: pass <- all-gather
compute: pass
- gathered parameters
compute: pass <- all-gather
compute: pass
- gathered parameters
compute: pass
- unsharded parameters
- unsharded parameters
+ unsharded parameters 66584576
compute: pass <- all-gather
compute: pass
- gathered parameters
- unsharded parameters
compute: parameters all_gather 2048
compute: parameters all_gather 2048
compute: parameters all_gather 2048
compute: parameters all_gather 2048
compute: parameters all_gather 2048
compute: parameters all_gather 2048
)");
}

TEST_CASE("Autograd keeps weights of torch's own linears until their backward passes", "[lower]") {
  CHECK(lines({"gathered parameters"}, [](strategy::Plan& plan) {
          plan.parameter_gather.live_elements = 1;
          plan.parameter_gather.kept_by_autograd = true;
        }) == R"(+ gathered parameters 65536000
+ gathered parameters 1048576
+ gathered parameters 6291456
- gathered parameters
- gathered parameters
+ gathered parameters 2097152
+ gathered parameters 8388608
+ gathered parameters 8388608
+ gathered parameters 65536000
+ gathered parameters 65536000
+ gathered parameters 8388608
- gathered parameters
- gathered parameters
+ gathered parameters 8388608
+ gathered parameters 2097152
+ gathered parameters 6291456
+ gathered parameters 1048576
- gathered parameters
- gathered parameters
- gathered parameters
- gathered parameters
- gathered parameters
- gathered parameters
- gathered parameters
- gathered parameters
+ gathered parameters 65536000
- gathered parameters
- gathered parameters
)");
}

TEST_CASE("A table that no backward hook gives up is whole for the next micro-batch", "[lower]") {
  const auto gathers = [](bool leftovers) {
    strategy::Plan plan = small_plan({.layers = 1, .micro_batches = 2});
    run_eagerly(plan);
    share_modules(plan);
    plan.parameter_gather.reuse_elements = 0;
    plan.parameter_gather.prefetch_elements = 0;
    plan.parameter_gather.leaves_leftovers = leftovers;
    const std::string lines = Traced(plan).of({"gathered parameters"});
    const auto times = [&](const std::string& line) {
      int n = 0;
      for (auto at = lines.find(line); at != std::string::npos; at = lines.find(line, at + 1)) {
        ++n;
      }
      return n;
    };
    CHECK(times("+ ") == times("- "));
    return times("+ gathered parameters 65536000");
  };
  // Embedding and head, once in each pass of two micro-batches.
  CHECK(gathers(false) == 8);
  CHECK(gathers(true) == 7);
}

TEST_CASE("Nothing is gathered ahead while as many parameters as allowed are whole", "[lower]") {
  CHECK(lines({"all_gather"},
              [](strategy::Plan& plan) { plan.parameter_gather.live_elements = 1; }) ==
        R"(all-gather: parameters all_gather 65536000 <- compute of the step before
all-gather: parameters all_gather 1048576
all-gather: parameters all_gather 6291456
all-gather: parameters all_gather 2097152 <- compute
all-gather: parameters all_gather 8388608
all-gather: parameters all_gather 8388608
all-gather: parameters all_gather 65536000
all-gather: parameters all_gather 65536000
all-gather: parameters all_gather 8388608
all-gather: parameters all_gather 8388608
all-gather: parameters all_gather 2097152
all-gather: parameters all_gather 6291456 <- compute
all-gather: parameters all_gather 1048576
all-gather: parameters all_gather 65536000 <- compute
compute: parameters all_gather 2048
compute: parameters all_gather 2048
compute: parameters all_gather 2048
compute: parameters all_gather 2048
compute: parameters all_gather 2048
compute: parameters all_gather 2048
)");
}

TEST_CASE("A parameter that is read again soon stays", "[lower]") {
  CHECK(lines({"all_gather"},
              [](strategy::Plan& plan) { plan.parameter_gather.reuse_elements = 1'000'000'000; }) ==
        R"(all-gather: parameters all_gather 157286400 <- compute of the step before
compute: parameters all_gather 2048
compute: parameters all_gather 2048
compute: parameters all_gather 2048
compute: parameters all_gather 2048
compute: parameters all_gather 2048
compute: parameters all_gather 2048
)");
}

TEST_CASE(
    "A checkpoint gathers the modules that it runs again behind the first module's backward hook",
    "[lower]") {
  CHECK(lines({"parameters", "pass"}, [](strategy::Plan& plan) {
          plan.recompute.kind = RecomputeKind::full;
          plan.parameter_gather.live_elements = 1;
        }) == R"(= parameters 19662336
= small parameters, whole 10752
+ gathered parameters 65536000
all-gather: parameters all_gather 65536000 <- compute of the step before
+ gathered parameters 1048576
all-gather: parameters all_gather 1048576
+ gathered parameters 6291456
all-gather: parameters all_gather 6291456
compute: pass <- all-gather
- gathered parameters
- gathered parameters
+ gathered parameters 2097152
all-gather: parameters all_gather 2097152 <- compute
+ gathered parameters 8388608
all-gather: parameters all_gather 8388608
+ gathered parameters 8388608
all-gather: parameters all_gather 8388608
compute: pass <- all-gather
- gathered parameters
- gathered parameters
- gathered parameters
- gathered parameters
+ gathered parameters 65536000
all-gather: parameters all_gather 65536000
compute: pass <- all-gather
- gathered parameters
+ gathered parameters 65536000
all-gather: parameters all_gather 65536000
+ gathered parameters 8388608
all-gather: parameters all_gather 8388608
compute: pass <- all-gather
- gathered parameters
+ gathered parameters 6291456
all-gather: parameters all_gather 6291456
+ gathered parameters 2097152
all-gather: parameters all_gather 2097152 <- compute
+ gathered parameters 8388608
all-gather: parameters all_gather 8388608
+ gathered parameters 8388608
all-gather: parameters all_gather 8388608
- gathered parameters
- gathered parameters
- gathered parameters
- gathered parameters
- gathered parameters
+ gathered parameters 8388608
all-gather: parameters all_gather 8388608
+ gathered parameters 2097152
all-gather: parameters all_gather 2097152
+ gathered parameters 6291456
all-gather: parameters all_gather 6291456 <- compute
+ gathered parameters 1048576
all-gather: parameters all_gather 1048576
compute: pass <- all-gather
- gathered parameters
- gathered parameters
- gathered parameters
+ gathered parameters 65536000
all-gather: parameters all_gather 65536000 <- compute
compute: pass <- all-gather
- gathered parameters
- gathered parameters
compute: parameters all_gather 2048
compute: parameters all_gather 2048
compute: parameters all_gather 2048
compute: parameters all_gather 2048
compute: parameters all_gather 2048
compute: parameters all_gather 2048
)");
}

// Two tables of the embedding, then QKV, projection and both halves of the MLP, then the head; back
// in reverse. Biases and norms are too small to be sharded.
TEST_CASE(
    "Until DeepSpeed has seen the order of the modules, each gathers its own parameters and gives "
    "them up behind it",
    "[lower]") {
  strategy::Plan plan = small_plan({.layers = 1, .micro_batches = 2});
  run_eagerly(plan);
  share_modules(plan);
  const program::World world = lower_small(plan, {});
  const program::Program& p = world.programs.front();
  const std::vector<std::int64_t> forward = {65536000, 1048576, 6291456, 2097152,
                                             8388608,  8388608, 65536000};
  std::vector<std::int64_t> expected = forward;
  expected.insert(expected.end(), forward.rbegin(), forward.rend());
  std::vector<std::int64_t> gathered;
  std::int64_t live = 0;
  for (const program::HostOp& op : p.host) {
    const bool made = op.kind == program::HostKind::allocate;
    if (!made && op.kind != program::HostKind::release) {
      continue;
    }
    const program::Buffer& b = p.buffers[op.buffer];
    if (b.first_step == program::kNone) {
      continue;
    }
    CHECK(b.bytes == Bytes(0));
    const std::int64_t bytes = p.first_steps[b.first_step].bytes.count();
    live += made ? bytes : -bytes;
    if (made) {
      gathered.push_back(bytes);
    }
  }
  CHECK(gathered == expected);
  CHECK(live == 0);
  // What is gathered by the trace of a micro-batch is not in the first one.
  std::pair<std::int64_t, std::int64_t> traced;  // bytes of every step, and of all but the first
  for (const program::Buffer& b : p.buffers) {
    if (!b.persistent && p.labels[b.label].find(" parameters") != std::string::npos) {
      (b.later ? traced.second : traced.first) += b.bytes.count();
    }
  }
  CHECK(traced.first == traced.second);
  CHECK(traced.first > 0);
}

}  // namespace stepcast::lower::test
