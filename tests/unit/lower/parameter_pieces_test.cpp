// Parameters that are gathered once per step.
#include "catch.hpp"
#include "lower/state/optimizer_states.h"
#include "traced.h"

namespace stepcast::lower::test {
namespace {

std::string repeated(const std::string& line, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) {
    out += line;
  }
  return out;
}

}  // namespace

TEST_CASE("Beside compute, a piece is waited for where it is first used, and asks for the next",
          "[lower]") {
  strategy::Plan plan = small_plan();
  share(plan, strategy::DataComm::shard_states);
  strategy::GradientSync& sync = plan.gradient_sync;
  sync.overlaps = sync.sends_as_filled = true;
  plan.parameter_gather.overlaps = true;
  const Traced traced(plan);
  CHECK(traced.of({"parameters", "<- data"}) == R"(= parameters 182472704
data: parameters all_gather 100155392 <- compute of the step before
data: parameters all_gather 82317312
compute: pass <- data
compute: pass <- data
compute: gradient norm <- data
)");
}

TEST_CASE("Pieces are the buckets of gradients, which fill up from the last array to the first",
          "[lower]") {
  strategy::Plan plan = small_plan({.layers = 1});
  share(plan, strategy::DataComm::shard_states);
  strategy::GradientSync& sync = plan.gradient_sync;
  sync.overlaps = sync.sends_as_filled = true;
  plan.parameter_gather.overlaps = true;
  sync.bucket_elements = 4'000'000;  // each weight of a layer but two fills one
  const Traced traced(plan);
  // In fp32: head and norm, two linears, projections of attention with both norms, table.
  CHECK(traced.of({"gradients reduce_scatter"}) ==
        R"(data: gradients reduce_scatter 131072000 <- compute
data: gradients reduce_scatter 16785408 <- compute
data: gradients reduce_scatter 16777216 <- compute
data: gradients reduce_scatter 16785408 <- compute
data: gradients reduce_scatter 133177344 <- compute
)");
  // In bf16, from the table on; those of the layer are waited for together.
  CHECK(traced.of({"parameters all_gather", "pass <- data"}) ==
        R"(data: parameters all_gather 66588672 <- compute of the step before
data: parameters all_gather 8392704
data: parameters all_gather 8388608
data: parameters all_gather 8392704
compute: pass <- data
data: parameters all_gather 65536000
compute: pass <- data
compute: pass <- data
)");
}

TEST_CASE("Else all are gathered behind the optimizer", "[lower]") {
  strategy::Plan plan = small_plan();
  share(plan, strategy::DataComm::shard_states);
  const Traced traced(plan);
  CHECK(traced.of({"parameters", "<- data"}) == R"(= parameters 182472704
compute: parameters all_gather 182472704
)");
}

TEST_CASE("Through flat buffers, slices are copied back one by one", "[lower]") {
  strategy::Plan plan = small_plan();
  share(plan, strategy::DataComm::shard_states);
  plan.parameter_gather.by_slices = true;
  const Traced traced(plan);
  const std::string made = repeated("+ flat slices of parameters 22809088\n", 1 + 8);
  const std::string given_up = repeated("- flat slices of parameters\n", 1 + 8);
  CHECK(traced.of({"parameters"}) == "= parameters 182472704\n" + made +
                                         R"(compute: flatten parameters
compute: parameters all_gather 182472704
compute: copy slices of parameters
)" + given_up);
}

TEST_CASE("Ranks that own whole arrays broadcast them as one tensor each", "[lower]") {
  strategy::Plan plan = small_plan();
  share(plan, strategy::DataComm::shard_states);
  plan.parameter_gather.from_owners = plan.optimizer_step.by_owner = true;
  plan.state_layout.partition = StatePartition::flat;
  const Traced traced(plan);
  // Table and output layer, the bound of the step, are one rank's each; six ranks share the layers.
  CHECK(traced.of({"parameters", "master"}) == R"(= parameters 182472704
= master weights 131072000
compute: parameters broadcast 65536000
compute: parameters broadcast 65536000
compute: parameters broadcast 9437184
compute: parameters broadcast 8392704
compute: parameters broadcast 8392704
compute: parameters broadcast 8392704
compute: parameters broadcast 8392704
compute: parameters broadcast 8392704
)");

  const std::vector<Array> arrays = {{5}, {2}, {4}};
  std::vector<std::int64_t> elements;
  for (const std::vector<Array>& owned : dealt_by_size(arrays, false, 2)) {
    elements.push_back(0);
    for (const Array& a : owned) {
      elements.back() += a.elements;
    }
  }
  CHECK(elements == std::vector<std::int64_t>{5, 6});
}

}  // namespace stepcast::lower::test
