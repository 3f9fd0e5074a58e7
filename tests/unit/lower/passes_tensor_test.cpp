// One-dimensional tensor parallelism: an MLP of a column and a row product.
#include "catch.hpp"
#include "small_unit.h"

using namespace stepcast;
using model::OpKind;
using model::TensorRole;
using test::SmallUnit;

namespace {

SmallUnit mlp(bool sequence_parallel) {
  SmallUnit unit;
  unit.add("norm", OpKind::norm);
  unit.linear("fc1", TensorRole::column, 32, 16);
  unit.add("act", OpKind::activation);
  unit.linear("fc2", TensorRole::row, 16, 32);
  unit.plan.shard.tensor = 2;
  unit.plan.shard.sequence_parallel = sequence_parallel;
  return unit;
}

constexpr std::int64_t kInput = 2 * 128 * 16;   // bytes of fc1's input and of fc2's result
constexpr std::int64_t kInside = 2 * 128 * 32;  // bytes between them

}  // namespace

TEST_CASE(
    "Without sequence parallelism a row product's result is summed, and back a column "
    "product's input gradient beside its weight gradient",
    "[lower]") {
  SmallUnit unit = mlp(false);
  CHECK(unit.forward() == "norm, fc1, act, fc2, [fc2 all_reduce]");
  CHECK(unit.backward() ==
        "fc2 dgrad, fc2 wgrad, act backward, fc1 dgrad, (fc1 dgrad all_reduce), fc1 wgrad, "
        "join tensor, norm backward");
  unit.plan.tensor_parallel.async_backward = false;
  CHECK(unit.backward() ==
        "fc2 dgrad, fc2 wgrad, act backward, fc1 dgrad, fc1 wgrad, [fc1 dgrad all_reduce], "
        "norm backward");
}

TEST_CASE("Each norm's weight gradient may be summed by itself", "[lower]") {
  SmallUnit unit = mlp(true);
  unit.graph.operators[0].parameters = 16;
  unit.plan.tensor_parallel.async_backward = false;
  const std::string behind = "norm backward";
  CHECK(unit.backward().ends_with(behind));
  unit.plan.tensor_parallel.norm_gradients_apart = true;
  CHECK(unit.backward().ends_with(behind + ", [norm weight gradient all_reduce]"));
  unit.plan.shard.sequence_parallel = false;
  CHECK(unit.backward().ends_with(behind));
}

TEST_CASE(
    "Sequence parallelism gathers what a column product reads and scatters what a row "
    "product makes",
    "[lower]") {
  SmallUnit unit = mlp(true);
  CHECK(unit.forward() == "norm, [fc1 all_gather], fc1, act, fc2, [fc2 reduce_scatter]");
  CHECK(unit.backward() ==
        "[fc2 grad all_gather], fc2 dgrad, fc2 wgrad, act backward, (fc1 input all_gather), "
        "fc1 dgrad, join tensor, (fc1 dgrad reduce_scatter), fc1 wgrad, join tensor, "
        "norm backward");
  // The items of a weight gradient are those of its own product.
  CHECK(unit.text(unit.build().weight_grad) == "fc2 wgrad, fc1 wgrad");
}

// megatron-core 0.19.2, transformer/moe/shared_experts.py: what is gathered ahead of a linear
// without tensor ranks (parallel_mode None) is the input that it keeps.
TEST_CASE("Shared experts beside the dispatch keep their gathered input", "[lower]") {
  SmallUnit unit = mlp(true);
  for (const std::size_t n : {1, 2, 3}) {
    unit.graph.operators[n].module = model::Module::shared_expert;
  }
  const std::int64_t sharded = unit.build().memory.saved.bytes;
  unit.plan.style.routing.shared_beside = true;
  CHECK(unit.build().memory.saved.bytes - sharded == kInput);
  CHECK(unit.forward() == "norm, [fc1 all_gather], fc1, act, fc2, [fc2 reduce_scatter]");
  CHECK(unit.backward() ==
        "[fc2 grad all_gather], fc2 dgrad, fc2 wgrad, act backward, fc1 dgrad, "
        "(fc1 dgrad reduce_scatter), fc1 wgrad, join tensor, norm backward");
}

TEST_CASE("Products that read one tensor gather it once", "[lower]") {
  SmallUnit unit = mlp(true);
  unit.graph.operators[1].saved.front().storage = 7;
  model::Operator gate = unit.graph.operators[1];
  gate.name = "gate";
  unit.graph.operators.insert(unit.graph.operators.begin() + 2, gate);
  unit.graph.edges = {{0, 1}, {0, 2}, {1, 3}, {2, 3}, {3, 4}};
  CHECK(unit.forward() == "norm, [fc1 all_gather], fc1, gate, act, fc2, [fc2 reduce_scatter]");
}

TEST_CASE("A linear that keeps its gathered input does not gather it again, and copies sequences",
          "[lower]") {
  SmallUnit unit = mlp(true);
  unit.plan.tensor_parallel.saves_gathered_input = true;
  CHECK(unit.forward() ==
        "norm, [fc1 all_gather], fc1 sequence copy, fc1, act, fc2, fc2 sequence copy, "
        "[fc2 reduce_scatter]");
  CHECK(unit.backward() ==
        "[fc2 grad all_gather], fc2 grad sequence copy, fc2 dgrad, fc2 wgrad, act backward, "
        "fc1 dgrad, fc1 dgrad sequence copy, (fc1 dgrad reduce_scatter), fc1 wgrad, join tensor, "
        "norm backward");
  CHECK(unit.build().recompute[2].category == program::Category::compute);
  // Of two shards, one counts as saved.
  CHECK(unit.bytes(unit.build().memory.saved, "fc1 copy") == kInput / 2);
}

TEST_CASE("Halves of a gated MLP that are linears of their own gather and sum apart", "[lower]") {
  SmallUnit unit = mlp(true);
  unit.plan.model.gated_mlp = true;
  unit.plan.tensor_parallel.gated_halves_apart = true;
  CHECK(unit.forward() ==
        "norm, [fc1 all_gather], [fc1 all_gather], fc1, act, fc2, [fc2 reduce_scatter]");
}

TEST_CASE("Gathered inputs and sums before they are scattered live beside their products",
          "[lower]") {
  SmallUnit unit = mlp(true);
  const lower::UnitMemory memory = unit.build().memory;
  CHECK(unit.bytes(memory.forward, "fc1 workspace") == kInput);
  CHECK(unit.bytes(memory.forward, "fc2 workspace") == kInput);
  // The gradient of the whole input, and the gathered input.
  CHECK(unit.bytes(memory.backward, "fc1 backward workspace") == 2 * kInput);
  CHECK(unit.bytes(memory.input_grad, "fc1 backward workspace") == kInput);
  CHECK(unit.bytes(memory.forward, "fc2 result") == kInput / 2);
}

TEST_CASE("A policy that keeps operators keeps the scattered result of a row product", "[lower]") {
  SmallUnit unit = mlp(true);
  unit.redone.resize(4);
  unit.redone[1].kind = lower::Redo::Kind::kept;  // its result, by the graph alone
  const lower::Passes passes = unit.build();
  CHECK(unit.bytes(passes.memory.saved, "kept to run again") ==
        passes.input + kInside + kInput / 2);
}
