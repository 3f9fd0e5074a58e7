// Operators by kind, without any feature.
#include "catch.hpp"
#include "lower/passes/pass_operators.h"
#include "small_unit.h"

using namespace stepcast;
using model::OpKind;
using model::TensorRole;
using test::SmallUnit;

TEST_CASE("A layer that runs again may stop before the last operator that saves anything",
          "[lower]") {
  SmallUnit unit;
  unit.linear("up", TensorRole::none, 32, 16);
  unit.linear("down", TensorRole::none, 16, 32);
  unit.add("add", OpKind::residual);
  CHECK(unit.text(unit.build().recompute) == "up, down, add");
  CHECK(unit.build().again_flops == unit.build().flops);
  unit.plan.recompute.stops_early = true;
  const lower::Passes passes = unit.build();
  CHECK(unit.text(passes.recompute) == "up");
  CHECK(passes.again_flops == unit.graph.operators[0].forward.count());
  CHECK(passes.memory.again.forward.blocks.size() < passes.memory.forward.blocks.size());
}

TEST_CASE("Weight gradients stand from the operator that makes them", "[lower]") {
  SmallUnit unit;
  unit.linear("up", TensorRole::none, 32, 16);
  unit.linear("down", TensorRole::none, 16, 32);
  CHECK(unit.build().memory.gradients.blocks.empty());
  unit.plan.parameter_gather.by_units = true;
  const auto& blocks = unit.build().memory.gradients.blocks;
  REQUIRE(blocks.size() == 2);
  CHECK(blocks[0].begin / lower::kPlacesOfOperator == 0);  // the last product runs back first
  CHECK(blocks[1].begin / lower::kPlacesOfOperator == 1);
}

TEST_CASE("A product asks for its workspace behind its result", "[lower]") {
  SmallUnit unit;
  unit.plan.device_memory.gemm_workspace_stands = true;
  unit.linear("up", TensorRole::none, 32, 16);
  unit.linear("down", TensorRole::none, 16, 32);
  const auto standing = unit.build().memory.forward.blocks.size();
  unit.plan.device_memory.gemm_workspace_stands = false;
  const auto& blocks = unit.build().memory.forward.blocks;
  REQUIRE(standing > 0);
  REQUIRE(blocks.size() == standing + 2);
  for (std::size_t i = standing; i < blocks.size(); ++i) {
    CHECK(blocks[i].begin == blocks[i].end);  // while the product runs
    CHECK(blocks[i].begin / lower::kPlacesOfOperator == i - standing);
    CHECK(blocks[i].bytes > blocks[0].bytes);
  }
}

TEST_CASE("A split pass may keep all that its first half read", "[lower]") {
  SmallUnit unit;
  unit.add("norm", OpKind::norm).saved.push_back({"input", Bytes(4096), 7});
  unit.linear("up", TensorRole::none, 32, 16);
  CHECK(unit.build().memory.kept.blocks.size() == 1);
  CHECK(unit.build().memory.output_gradients.blocks.size() == 1);
  unit.graph.operators[0].parameters = 16;
  unit.plan.stage_transport.split_keeps_graph = true;
  const lower::Passes passes = unit.build();
  CHECK(passes.memory.kept.blocks.empty());
  CHECK(passes.memory.weight_inputs.blocks.size() == 2);
  CHECK(passes.memory.output_gradients.blocks.size() == 2);  // of the product, and of the norm
}

TEST_CASE("Under the selective policy only keys run again of grouped queries", "[lower]") {
  SmallUnit unit;
  unit.plan.model.heads = 8;
  unit.plan.model.kv_heads = 2;
  unit.plan.recompute.kind = RecomputeKind::per_op;
  unit.linear("qkv", TensorRole::none, 48, 16).forward_kernels = 3;
  unit.linear("out", TensorRole::none, 16, 48);
  unit.linear("fc1", TensorRole::none, 32, 16).forward_kernels = 2;
  unit.linear("fc2", TensorRole::none, 16, 32);
  const lower::Redone redone = lower::redone_of(unit.plan, unit.graph);
  CHECK(redone[0].share == 2.0 / 12);
  CHECK(redone[1].share == 1);
  CHECK(redone[1].kind == lower::Redo::Kind::dropped);
  CHECK(redone[2].share == 0.5);
  CHECK(redone[3].kind == lower::Redo::Kind::kept);
  // torchao's products in 4 bits are no `mm` that the policy could see.
  unit.plan.precision.products = job::DType::nvfp4;
  unit.plan.precision.casts_operands_twice = true;
  const lower::Redone hidden = lower::redone_of(unit.plan, unit.graph);
  CHECK(hidden[0].kind == lower::Redo::Kind::dropped);
  CHECK(hidden[0].share == 1);
}

TEST_CASE("Behind a loss outside the model its own backward pass begins", "[lower]") {
  SmallUnit unit;
  unit.linear("output", TensorRole::none, 32, 16);
  unit.add("loss", OpKind::cross_entropy);
  unit.plan.loss_form.outside_model = true;
  CHECK(unit.backward() == "loss backward, output dgrad, output wgrad");
  unit.plan.parameter_gather.by_units = true;
  CHECK(unit.backward() == "loss backward, behind the loss, output dgrad, output wgrad");
}

TEST_CASE("Every kind of operator has an emitter; those with weights have one for their gradient",
          "[lower]") {
  for (int i = 0; i <= static_cast<int>(OpKind::cross_entropy); ++i) {
    const auto kind = static_cast<OpKind>(i);
    const lower::OperatorEmitter& emitter = lower::emitter_of(kind);
    INFO(i);
    CHECK(emitter.kind == kind);
    CHECK(emitter.forward != nullptr);
    CHECK(emitter.input_grad != nullptr);
    const bool weights =
        kind == OpKind::gemm || kind == OpKind::grouped_gemm || kind == OpKind::router;
    CHECK((emitter.weight_grad != nullptr) == weights);
  }
}

TEST_CASE("A linear makes two gradients behind its result; other operators one", "[lower]") {
  SmallUnit unit;
  unit.add("norm", OpKind::norm);
  unit.linear("fc", TensorRole::none, 32, 16);
  const lower::Passes passes = unit.build();
  CHECK(unit.text(passes.forward) == "norm, fc");
  CHECK(unit.text(passes.recompute) == "norm, fc");
  CHECK(unit.text(passes.backward) == "fc dgrad, fc wgrad, norm backward");
  CHECK(unit.text(passes.input_grad) == "fc dgrad, norm backward");
  CHECK(unit.text(passes.weight_grad) == "fc wgrad");
  CHECK(passes.recompute.front().category == program::Category::recompute);
}

TEST_CASE("An adapter's product keeps the 16-bit copy of its fp32 weight", "[lower]") {
  SmallUnit unit;
  unit.linear("lora_q_a", TensorRole::none, 64, 1024).adapter = true;
  const auto saved = [&] {
    std::int64_t bytes = 0;
    for (const program::Block& block : unit.build().memory.saved.blocks) {
      bytes += block.bytes.count();
    }
    return bytes;
  };
  unit.plan.style.casts_adapter_inputs = true;
  const std::int64_t input = saved();
  unit.plan.precision.parameters = DType::fp32;
  CHECK(saved() == input + 2 * unit.graph.operators[0].parameters);
  unit.plan.data_comm = strategy::DataComm::shard_all;  // gathered in 16 bits
  CHECK(saved() == input);
}

TEST_CASE("A frozen linear makes no gradient of its own", "[lower]") {
  SmallUnit unit;
  model::Operator& op = unit.linear("fc", TensorRole::none, 32, 16);
  op.frozen = op.parameters;
  op.parameters = 0;
  CHECK(unit.backward() == "fc dgrad");
}

TEST_CASE("Gradients of several micro-batches are added where the product does not add",
          "[lower]") {
  SmallUnit unit;
  unit.linear("fc", TensorRole::none, 32, 16);
  unit.plan.micro_batches = 2;
  CHECK(unit.backward() == "fc dgrad, fc wgrad, accumulate gradient");
  unit.plan.gradient_sync.accumulates_whole = false;
  CHECK(unit.backward() == "fc dgrad, fc wgrad");
  unit.plan.gradient_sync.accumulates_whole = true;
  unit.plan.accumulation.in_product = true;
  CHECK(unit.backward() == "fc dgrad, fc wgrad");
}

TEST_CASE("A hook adds the gradient of an embedding where products add their own", "[lower]") {
  SmallUnit unit;
  unit.add("table", OpKind::embedding).parameters = 64;
  unit.linear("fc", TensorRole::none, 32, 16);
  unit.plan.accumulation.in_product = true;
  CHECK(unit.backward() == "fc dgrad, fc wgrad, table backward, accumulate gradient");
}

TEST_CASE("A gradient that is cast before it is added moves eight bytes more", "[lower]") {
  const auto accumulation = [](bool casts_first) {
    SmallUnit unit;
    unit.linear("fc", TensorRole::none, 4096, 4096);
    unit.plan.micro_batches = casts_first ? 1 : 2;
    unit.plan.precision.gradients = DType::fp32;
    unit.plan.accumulation.casts_first = casts_first;
    return to_seconds(unit.build().backward.back().duration);
  };
  // BF16_Optimizer adds a step's only gradient as well. In 16 bits read, in fp32 added to the sum:
  // 10 bytes; 18 with a copy in fp32 that is written and read. Beside the bytes a kernel has a
  // latency.
  CHECK(accumulation(true) / accumulation(false) == Approx(18.0 / 10).epsilon(0.05));
}

TEST_CASE("A router chooses behind its product; unfused attention has two gradients", "[lower]") {
  SmallUnit unit;
  unit.linear("router", TensorRole::none, 4, 16).kind = OpKind::router;
  model::Operator& scores = unit.linear("scores", TensorRole::none, 32, 16);
  scores.kind = OpKind::batched_gemm;
  scores.parameters = 0;
  scores.forward = Flops(1);
  scores.input_grad = Flops(2);
  CHECK(unit.forward() == "router, router probabilities, scores");
  CHECK(unit.backward() == "scores backward, scores backward, router dgrad, router wgrad");
  scores.input_grad = scores.forward;  // a mask takes no gradient
  CHECK(unit.backward() == "scores backward, router dgrad, router wgrad");
}

TEST_CASE("Experts one after the other launch a product each", "[lower]") {
  SmallUnit unit;
  model::Operator& op = unit.linear("experts", TensorRole::none, 32, 16);
  op.kind = OpKind::grouped_gemm;
  op.gemm->batch = 4;
  CHECK(unit.build().forward.front().kernels == 1);
  unit.plan.expert_dispatch.launches_each_expert = true;
  CHECK(unit.build().forward.front().kernels == 4);
}

TEST_CASE("What runs again comes before the first backward pass that needs it", "[lower]") {
  SmallUnit unit;
  unit.linear("up", TensorRole::none, 32, 16);
  unit.add("act", OpKind::activation).saved.push_back({"input", Bytes(8192), 9});
  unit.linear("down", TensorRole::none, 16, 32);
  unit.redone.resize(3);
  unit.redone[0].kind = lower::Redo::Kind::dropped;
  CHECK(unit.backward() == "down dgrad, down wgrad, up, act backward, up dgrad, up wgrad");
}

TEST_CASE("A weight has the shape of its product, a bias is an array of its own", "[lower]") {
  SmallUnit unit;
  unit.linear("fc", TensorRole::none, 32, 16).parameters += 32;
  const lower::Passes passes = unit.build();
  REQUIRE(passes.arrays.size() == 2);
  CHECK(passes.arrays[0].rows == 32);
  CHECK(passes.arrays[0].columns == 16);
  CHECK(passes.arrays[1].elements == 32);
  CHECK(passes.parameters.trained.dense == 32 * 17);
}

TEST_CASE("The gradient that autograd hands on lives beside the weight's product", "[lower]") {
  SmallUnit unit;
  unit.linear("fc", TensorRole::none, 32, 16);
  unit.plan.accumulation.hands_on_gradients = true;
  CHECK(unit.bytes(unit.build().memory.weight_grad, "fc weight gradient") == 2 * 32 * 16);
  unit.plan.accumulation.empty_gradients_stand = true;
  const lower::Passes stands = unit.build();
  CHECK(stands.memory.weight_grad.blocks.empty());
  CHECK(stands.summed.size() == 1);
}
