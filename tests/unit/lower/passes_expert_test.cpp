// Dispatch of tokens to experts and back, with expert parallelism over two ranks.
#include "catch.hpp"
#include "small_unit.h"

using namespace stepcast;
using model::ExpertRole;
using model::Module;
using model::OpKind;
using model::TensorRole;
using test::SmallUnit;

namespace {

SmallUnit experts(Dispatcher dispatcher) {
  SmallUnit unit;
  unit.plan.model.moe.emplace();
  unit.plan.model.moe->experts = 4;
  unit.plan.model.moe->topk = 1;
  unit.plan.shard.expert = 2;
  unit.plan.style.routing.dispatcher = dispatcher;
  unit.plan.expert_dispatch.dispatcher = dispatcher;
  model::Operator& dispatch = unit.add("dispatch", OpKind::permute);
  dispatch.module = Module::moe;
  dispatch.expert = ExpertRole::dispatch;
  model::Operator& product = unit.linear("experts", TensorRole::none, 32, 16);
  product.kind = OpKind::grouped_gemm;
  product.module = Module::moe;
  product.gemm->batch = 2;
  model::Operator& combine = unit.add("combine", OpKind::permute);
  combine.module = Module::moe;
  combine.expert = ExpertRole::combine;
  return unit;
}

constexpr std::int64_t kTokens = 2 * 128 * 16;  // bytes of this rank's tokens

}  // namespace

TEST_CASE("Copies travel behind their layout and come back before they are taken", "[lower]") {
  SmallUnit unit = experts(Dispatcher::alltoall);
  CHECK(unit.forward() ==
        "[dispatch counts all_gather], host waits, dispatch, [dispatch all_to_all], "
        "[dispatch probabilities all_to_all], experts, [combine all_to_all], combine");
  CHECK(unit.backward() ==
        "combine backward, [combine grad all_to_all], experts dgrad, experts wgrad, "
        "[dispatch grad probabilities all_to_all], [dispatch grad all_to_all], dispatch backward");
}

TEST_CASE("Whole tokens travel before their layout and come back behind", "[lower]") {
  SmallUnit unit = experts(Dispatcher::deepep);
  CHECK(unit.forward() ==
        "host waits, [dispatch tokens], dispatch, experts, combine, [combine tokens]");
  CHECK(unit.backward() ==
        "[combine grad tokens], combine backward, experts dgrad, experts wgrad, "
        "dispatch backward, [dispatch grad tokens]");
}

TEST_CASE("The all-gather dispatcher brings all tokens together and sums what experts made",
          "[lower]") {
  SmallUnit unit = experts(Dispatcher::allgather);
  unit.plan.expert_dispatch.host_reads_counts = false;
  CHECK(unit.forward() ==
        "[dispatch routing map all_gather], [dispatch probabilities all_gather], "
        "[dispatch all_gather], dispatch, experts, combine, [combine reduce_scatter]");
  CHECK(unit.backward() ==
        "[combine grad all_gather], combine backward, experts dgrad, experts wgrad, "
        "dispatch backward, [dispatch grad reduce_scatter], "
        "[dispatch grad probabilities reduce_scatter]");
}

TEST_CASE("Expert-tensor ranks share the copies that came", "[lower]") {
  SmallUnit unit = experts(Dispatcher::alltoall);
  unit.plan.shard.expert_tensor = 2;
  CHECK(unit.forward() ==
        "[dispatch counts all_gather], host waits, dispatch, [dispatch all_to_all], "
        "[dispatch probabilities all_to_all], [dispatch all_gather], "
        "[dispatch probabilities all_gather], experts, [combine reduce_scatter], "
        "[combine all_to_all], combine");
}

TEST_CASE("Tensor ranks that route the whole sequence sum only the gradients of its copies",
          "[lower]") {
  SmallUnit unit = experts(Dispatcher::alltoall);
  unit.plan.shard.tensor = unit.plan.shard.expert_tensor = 2;
  unit.plan.shard.sequence_parallel = true;
  unit.plan.style.routing.whole_sequence = true;
  unit.plan.style.routing.sends_probabilities = false;
  CHECK(unit.forward() ==
        "[dispatch counts all_to_all], host waits, dispatch, [dispatch all_to_all], experts, "
        "[combine all_to_all], combine");
  CHECK(unit.backward() ==
        "combine backward, [combine grad all_to_all], experts dgrad, experts wgrad, "
        "[dispatch grad all_reduce], [dispatch grad all_to_all], dispatch backward");
}

TEST_CASE("The host works before either grouped product", "[lower]") {
  SmallUnit unit = experts(Dispatcher::alltoall);
  unit.plan.expert_dispatch.host_reads_counts = false;
  unit.plan.expert_dispatch.overhead = Time(1000);
  CHECK(unit.forward() ==
        "dispatch, [dispatch all_to_all], [dispatch probabilities all_to_all], host works, "
        "experts, [combine all_to_all], combine");
  CHECK(unit.backward().starts_with(
      "combine backward, [combine grad all_to_all], host works, experts dgrad"));
}

TEST_CASE("The host waits behind the clamps of gpt-oss's experts", "[lower]") {
  SmallUnit unit = experts(Dispatcher::alltoall);
  unit.plan.expert_dispatch.host_reads_counts = false;
  model::Operator clamp = unit.graph.operators[2];
  clamp.name = "expert_clamp";
  clamp.kind = OpKind::elementwise;
  clamp.expert = ExpertRole::none;
  model::Operator act = clamp;
  act.name = "expert_act";
  act.kind = OpKind::activation;
  auto& operators = unit.graph.operators;
  operators.insert(operators.begin() + 2, {clamp, act});
  unit.graph.edges = {{0, 1}, {1, 2}, {2, 3}, {3, 4}};
  CHECK(unit.forward() ==
        "dispatch, [dispatch all_to_all], [dispatch probabilities all_to_all], experts, "
        "expert_clamp, host waits, expert_act, [combine all_to_all], combine");
}

TEST_CASE("Shared experts run while tokens travel", "[lower]") {
  SmallUnit unit = experts(Dispatcher::alltoall);
  unit.plan.style.routing.shared_beside = true;
  model::Operator shared = unit.graph.operators[1];
  shared.name = "shared";
  shared.kind = OpKind::gemm;
  shared.module = Module::shared_expert;
  unit.graph.operators.insert(unit.graph.operators.begin() + 1, shared);
  unit.graph.edges = {{0, 2}, {1, 3}, {2, 3}};
  CHECK(unit.forward() ==
        "[dispatch counts all_gather], host waits, dispatch, (dispatch all_to_all), "
        "(dispatch probabilities all_to_all), shared, join expert, experts, [combine all_to_all], "
        "combine");
  CHECK(unit.backward() ==
        "combine backward, [combine grad all_to_all], experts dgrad, experts wgrad, "
        "(dispatch grad probabilities all_to_all), (dispatch grad all_to_all), shared dgrad, "
        "shared wgrad, join expert, dispatch backward");
}

TEST_CASE("A policy that keeps operators keeps tokens that reached their experts and came back",
          "[lower]") {
  SmallUnit unit = experts(Dispatcher::alltoall);
  unit.redone.resize(3);
  unit.redone[1].kind = lower::Redo::Kind::kept;
  const std::int64_t result = unit.graph.operators[1].forward_output.count();
  const lower::Passes passes = unit.build();
  CHECK(unit.bytes(passes.memory.saved, "kept to run again") ==
        passes.input + result + 2 * kTokens);
}
