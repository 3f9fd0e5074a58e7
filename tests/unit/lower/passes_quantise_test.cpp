// Casts around a product of 8-bit operands.
#include "lower/passes/passes_quantise.h"

#include "catch.hpp"
#include "small_unit.h"

using namespace stepcast;
using model::TensorRole;
using test::SmallUnit;

namespace {

SmallUnit linear(DType operands) {
  SmallUnit unit;
  unit.linear("fc", TensorRole::none, 1024, 1024);
  unit.plan.precision.products = operands;
  unit.plan.precision.compute_capability = 9;
  return unit;
}

}  // namespace

TEST_CASE("Input and weight are cast before the product, the gradient before both gradients",
          "[lower]") {
  SmallUnit unit = linear(DType::fp8);
  const lower::Passes passes = unit.build();
  CHECK(unit.text(passes.forward) == "fc input cast, fc weight cast, fc");
  CHECK(unit.text(passes.recompute) == "fc input cast, fc");  // the weight's copy is kept
  CHECK(unit.text(passes.backward) == "fc grad cast, fc dgrad, fc wgrad");
  CHECK(passes.arrays.front().cast);
}

TEST_CASE("Products in 16 bits, of the head and of attention are not cast", "[lower]") {
  CHECK(linear(DType::bf16).forward() == "fc");
  SmallUnit head = linear(DType::fp8);
  head.graph.operators[0].module = model::Module::head;
  CHECK(head.forward() == "fc");
  SmallUnit scores = linear(DType::fp8);
  scores.graph.operators[0].kind = model::OpKind::batched_gemm;
  CHECK(scores.forward() == "fc");
}

TEST_CASE("An input that two products read is cast once", "[lower]") {
  SmallUnit unit = linear(DType::fp8);
  const std::vector<model::Saved> input = unit.graph.operators[0].saved;
  unit.linear("gate", TensorRole::none, 1024, 1024).saved = input;
  CHECK(unit.forward() == "fc input cast, fc weight cast, fc, gate weight cast, gate");
}

TEST_CASE("Linears that keep what they read cast it again for the weight gradient", "[lower]") {
  SmallUnit unit = linear(DType::fp8);
  unit.plan.precision.casts_operands_twice = true;
  CHECK(unit.backward() ==
        "fc grad cast, fc weight again cast, fc input again cast, fc dgrad, fc wgrad");
}

TEST_CASE("torchao's linears cast their weights in every pass, a compiler those of one scale once",
          "[lower]") {
  SmallUnit unit = linear(DType::fp8);
  unit.plan.precision.casts_operands_twice = true;
  unit.graph.operators[0].gemm->n = 1 << 20;
  const auto once = to_seconds(unit.build().forward[1].duration);
  unit.plan.micro_batches = 4;
  CHECK(to_seconds(unit.build().forward[1].duration) == Approx(once));
  CHECK(unit.text(unit.build().recompute) == "fc input cast, fc weight cast, fc");
  unit.plan.style.compiled = true;
  CHECK(unit.text(unit.build().recompute) == "fc input cast, fc");
  unit.plan.precision.products = DType::fp8_block;  // whose scales differ by direction
  CHECK(unit.text(unit.build().recompute) == "fc input cast, fc weight cast, fc");
}

TEST_CASE("A weight that was gathered in 8 bits is turned over alone", "[lower]") {
  SmallUnit unit = linear(DType::fp8);
  unit.plan.precision.casts_operands_twice = true;
  unit.plan.parameter_gather.float8 = Float8Gather::precomputed;
  CHECK(unit.forward() == "fc input cast, fc");
  CHECK(unit.backward() ==
        "fc grad cast, fc weight transpose, fc input again cast, fc dgrad, fc wgrad");
}

TEST_CASE("Linears that read one tensor cast it each for itself, unless they are compiled",
          "[lower]") {
  SmallUnit unit = linear(DType::fp8);
  unit.plan.precision.casts_operands_twice = true;
  const std::vector<model::Saved> input = unit.graph.operators[0].saved;
  unit.linear("gate", TensorRole::none, 1024, 1024).saved = input;
  CHECK(unit.forward() ==
        "fc input cast, fc weight cast, fc, gate input cast, gate weight cast, gate");
  unit.plan.style.compiled = true;
  CHECK(unit.forward() == "fc input cast, fc weight cast, fc, gate weight cast, gate");
}

TEST_CASE("Casts with a kernel for each direction: columns for the weight gradient, and the weight",
          "[lower]") {
  SmallUnit unit = linear(DType::fp8_block);
  unit.plan.style.casts_apart = true;
  CHECK(unit.text(unit.build().forward) == "fc input cast, fc weight cast, fc");
  CHECK(unit.backward() ==
        "fc grad cast, fc weight transpose, fc grad cast along columns, fc input cast along "
        "columns, fc dgrad, fc wgrad");
}

TEST_CASE("Shards are cast before they are gathered", "[lower]") {
  const auto first = [](TensorRole role, bool sequence_parallel) {
    SmallUnit unit = linear(DType::fp8);
    unit.graph.operators[0].tensor = role;
    unit.graph.operators[0].gemm->m = 1 << 20;  // so many rows that only bytes count
    unit.plan.shard.tensor = 2;
    unit.plan.shard.sequence_parallel = sequence_parallel;
    return to_seconds(unit.build().forward.front().duration);
  };
  CHECK(first(TensorRole::column, true) / first(TensorRole::column, false) ==
        Approx(0.5).epsilon(0.05));
}

TEST_CASE("The weight's cast is shared out over a step's micro-batches", "[lower]") {
  SmallUnit unit = linear(DType::fp8);
  unit.graph.operators[0].gemm->n = 1 << 20;
  const auto once = to_seconds(unit.build().forward[1].duration);
  unit.plan.micro_batches = 4;
  CHECK(to_seconds(unit.build().forward[1].duration) / once == Approx(0.25).epsilon(0.1));
}

TEST_CASE("A copy in 8 bits is kept for the weight gradient", "[lower]") {
  SmallUnit unit = linear(DType::fp8);
  CHECK(unit.bytes(unit.build().memory.saved, "fc input") == 128 * 1024);
  SmallUnit whole = linear(DType::bf16);
  CHECK(whole.bytes(whole.build().memory.saved, "fc input") == 2 * 128 * 1024);
}

TEST_CASE("Of a frozen weight nothing is cast along columns, and one in 8 bits is not cast",
          "[lower]") {
  SmallUnit unit = linear(DType::fp8);
  model::Operator& op = unit.graph.operators[0];
  op.frozen = op.parameters;
  op.parameters = 0;
  op.gemm->m = 1 << 20;  // so many rows that only bytes count
  CHECK(unit.forward() == "fc input cast, fc weight cast, fc");
  const double trained = [] {
    SmallUnit other = linear(DType::fp8);
    other.graph.operators[0].gemm->m = 1 << 20;
    return to_seconds(other.build().forward.front().duration);
  }();
  // Read twice, written once in place of twice.
  CHECK(to_seconds(unit.build().forward.front().duration) / trained ==
        Approx(5.0 / 6).epsilon(0.01));
  unit.plan.precision.frozen = DType::fp8;
  CHECK(unit.forward() == "fc input cast, fc");
  CHECK(
      unit.text(unit.build().backward).starts_with("fc grad cast, fc weight transpose, fc dgrad"));
  unit.plan.precision.compute_capability = 10;
  CHECK(unit.text(unit.build().backward).starts_with("fc grad cast, fc dgrad"));
}

// get_weight_workspace of Transformer Engine 2 (pytorch/module/base.py) makes the columns with the
// first use, and they stay with the weight.
TEST_CASE("Columns of a frozen 8-bit weight stand beside it where copies are kept", "[lower]") {
  SmallUnit unit = linear(DType::fp8);
  model::Operator& op = unit.graph.operators[0];
  op.frozen = op.parameters;
  op.parameters = 0;
  unit.plan.precision.frozen = DType::fp8;
  const std::int64_t alone = unit.build().parameters.frozen_bytes;
  CHECK(alone == op.frozen);
  unit.plan.precision.weight_copies = strategy::WeightCopies::kept;
  CHECK(unit.build().parameters.frozen_bytes == 2 * alone);
  CHECK(unit.text(unit.build().backward).starts_with("fc grad cast, fc dgrad"));
  unit.plan.precision.compute_capability = 10;  // its products read rows as they lie
  CHECK(unit.build().parameters.frozen_bytes == alone);
  unit.plan.precision.products = DType::mxfp8;  // whose scales differ by direction
  CHECK(unit.build().parameters.frozen_bytes == 2 * alone + alone / 32);
}

TEST_CASE("Without a cache a 16-bit weight is cast for each micro-batch, and its copies are kept",
          "[lower]") {
  SmallUnit unit = linear(DType::fp8);
  const auto saved = [&] {
    std::int64_t bytes = 0;
    for (const program::Block& block : unit.build().memory.saved.blocks) {
      bytes += block.bytes.count();
    }
    return bytes;
  };
  unit.plan.precision.weight_copies = strategy::WeightCopies::kept;
  unit.plan.micro_batches = 4;
  const auto weight_cast = [&] { return to_seconds(unit.build().forward[1].duration); };
  const double shared = weight_cast();
  const std::int64_t input = saved();
  unit.plan.precision.weight_copies = strategy::WeightCopies::each_pass;
  CHECK(unit.forward() == "fc input cast, fc weight cast, fc");
  CHECK(weight_cast() > shared);
  CHECK(saved() == input + 2 * 1024 * 1024);  // rows and columns
  CHECK(unit.text(unit.build().recompute) == "fc input cast, fc weight cast, fc");
  // One that stands in 8 bits is only turned over.
  unit.plan.precision.parameters = DType::fp8;
  CHECK(unit.text(unit.build().backward)
            .starts_with("fc grad cast, fc weight transpose, fc dgrad, fc wgrad"));
  CHECK(saved() == input);
}

TEST_CASE("A gathered 8-bit weight is turned over in each pass", "[lower]") {
  SmallUnit unit = linear(DType::fp8);
  unit.plan.precision.parameters = DType::fp8;
  unit.plan.precision.weight_copies = strategy::WeightCopies::with_units;
  CHECK(unit.text(unit.build().forward) == "fc input cast, fc weight transpose, fc");
  CHECK(unit.backward() == "fc grad cast, fc weight transpose, fc dgrad, fc wgrad");
  unit.plan.precision.compute_capability = 10;
  CHECK(unit.backward() == "fc grad cast, fc dgrad, fc wgrad");
}

TEST_CASE("A fused MLP's norm and activation write the operands of its products", "[lower]") {
  SmallUnit unit;
  unit.linear("fc1", TensorRole::column, 1024, 1024).module = model::Module::mlp;
  unit.linear("fc2", TensorRole::row, 1024, 1024).module = model::Module::mlp;
  unit.plan.precision.products = DType::fp8;
  unit.plan.style.fused_casts = true;
  CHECK(unit.forward() == "fc1 weight cast, fc1, fc2 weight cast, fc2");
  // The gradient of the MLP's result comes in 16 bits.
  CHECK(unit.backward() == "fc2 grad cast, fc2 dgrad, fc2 wgrad, fc1 dgrad, fc1 wgrad");
}

TEST_CASE("An adapter's products stay in 16 bits", "[lower]") {
  SmallUnit unit = linear(DType::fp8);
  unit.graph.operators[0].adapter = true;
  CHECK(unit.forward() == "fc");
}

TEST_CASE("Attention in 8 bits is cast to and from them in both passes", "[lower]") {
  SmallUnit unit;
  model::Operator& op = unit.add("core", model::OpKind::fused_attention);
  op.attention = model::AttentionShape{};
  op.attention->sequences = 1;
  op.attention->query_length = op.attention->key_length = 1 << 14;
  op.attention->heads = op.attention->kv_heads = 32;
  op.attention->qk_dim = op.attention->v_dim = 128;
  unit.plan.precision.products = DType::fp8;
  CHECK(unit.forward() == "core");
  unit.plan.style.fp8_attention = true;
  CHECK(unit.forward() == "core qkv cast, core, core output cast");
  CHECK(unit.backward() == "core grad cast, core backward, core qkv grad cast");
}
