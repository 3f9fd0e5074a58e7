// Attention over two context ranks.
#include "catch.hpp"
#include "small_unit.h"

using namespace stepcast;
using model::OpKind;
using model::TensorRole;
using test::SmallUnit;

namespace {

SmallUnit attention(ContextKind kind) {
  SmallUnit unit;
  model::Operator& op = unit.add("core", OpKind::fused_attention);
  op.module = model::Module::core_attention;
  op.attention = model::AttentionShape{1, 32, 64, 2, 2, 16, 16};
  op.attention->causal = false;
  unit.plan.shard.context = 2;
  unit.plan.grid.context = 2;
  unit.plan.context_exchange.kind = kind;
  unit.plan.context_exchange.inner = kind == ContextKind::hierarchical ? 2 : 1;
  return unit;
}

SmallUnit product(const std::string& name) {
  SmallUnit unit;
  model::Operator& op = unit.linear(name, TensorRole::none, 64, 16);
  op.kind = OpKind::batched_gemm;
  op.module = model::Module::core_attention;
  op.parameters = 0;
  unit.plan.grid.context = 2;
  return unit;
}

constexpr std::int64_t kPart = 2 * 32 * 2 * 16;  // bytes of this rank's queries, keys or values

}  // namespace

TEST_CASE("A ring passes keys and values on beside the attention of a step", "[lower]") {
  SmallUnit unit = attention(ContextKind::p2p);
  CHECK(unit.forward() ==
        "core kv together, <core kv>, core, core merge, join context, core, core merge");
  CHECK(unit.backward() ==
        "<core kv>, core backward, join context, core dkv together, core dkv sum, core dq sum, "
        "<core dkv>, core backward, join context, core dkv together, core dkv sum, core dq sum");
  CHECK(unit.book.messages() == std::vector<std::int64_t>{2 * kPart});
}

TEST_CASE("All-gathers bring all keys, reduce-scatters take their gradients", "[lower]") {
  SmallUnit unit = attention(ContextKind::all_gather);
  CHECK(unit.forward() == "[core k all_gather], [core v all_gather], core");
  CHECK(unit.backward() ==
        "[core k all_gather], [core v all_gather], core backward, core dkv add, "
        "[core dk reduce_scatter], [core dv reduce_scatter]");
}

TEST_CASE("In steps, keys come at once or go round, and gradients of keys go round in fp32",
          "[lower]") {
  SmallUnit unit = attention(ContextKind::all_gather);
  unit.plan.context_exchange.in_steps = true;
  CHECK(unit.forward() ==
        "core kv together, (core kv all_gather), core, core merge, join context, core, core merge, "
        "core cast");
  CHECK(unit.backward() ==
        "core zero gradients, core kv together, (core kv all_gather), core backward, core dkv sum, "
        "<core dkv>, core dq sum, join context, core backward, join context, core dkv sum, "
        "<core dkv>, core dq sum, join context, core cast");
  CHECK(unit.book.messages() == std::vector<std::int64_t>{2 * 2 * kPart});
  SmallUnit ring = attention(ContextKind::p2p);
  ring.plan.context_exchange.in_steps = true;
  CHECK(ring.forward() ==
        "core kv together, <core kv>, core, core merge, join context, core, core merge, core cast");
}

// Counted in torch 2.6's Python: copies and the concatenation of keys and values; a cast; a cast
// and eight functions, and two concatenations in every second step; a cast.
TEST_CASE("A ring of torch's launches what its Python calls, a compiled one less", "[lower]") {
  SmallUnit unit = attention(ContextKind::all_gather);
  unit.graph.operators.front().attention->causal = true;
  unit.plan.context_exchange.in_steps = true;
  unit.plan.context_exchange.balanced = true;
  const auto launches = [&](bool compiled, bool backward) {
    unit.plan.style.compiled = compiled;
    const lower::Passes passes = unit.build();
    int out = 0;
    for (const lower::Item& item : backward ? passes.backward : passes.forward) {
      const std::string& label = unit.labels.all()[item.label];
      const bool kernel = item.kind == lower::Item::Kind::kernel;
      out += kernel && !label.ends_with("core") && !label.ends_with("core backward")
                 ? item.kernels + item.more
                 : 0;
    }
    return out;
  };
  CHECK(launches(false, false) == 3 + 1 + (9 + 1) + 1);
  CHECK(launches(true, false) == 1 + 1 + 1 + 1);
  // Zeros; keys and values; sums and a concatenation, a step later with copies; casts.
  CHECK(launches(false, true) == 3 + 3 + (3 + 1) + (4 + 2) + 2);
}

TEST_CASE("A compiled ring waits for each collective where it is called", "[lower]") {
  SmallUnit unit = attention(ContextKind::all_gather);
  unit.plan.context_exchange.in_steps = true;
  unit.plan.style.compiled = true;
  CHECK(unit.forward() ==
        "core kv together, (core kv all_gather), join context, core, core merge, join context, "
        "core, core merge, core cast");
  CHECK(unit.backward() ==
        "core zero gradients, core kv together, (core kv all_gather), join context, core backward, "
        "core dkv sum, <core dkv>, join context, core dq sum, join context, core backward, "
        "join context, core dkv sum, <core dkv>, join context, core dq sum, join context, "
        "core cast");
}

TEST_CASE("All-to-alls trade sequence for heads before and behind the kernel", "[lower]") {
  SmallUnit unit = attention(ContextKind::a2a);
  CHECK(unit.forward() ==
        "core heads by rank, [core q all_to_all], core sequence in order, core heads by rank, "
        "[core k all_to_all], core sequence in order, core heads by rank, [core v all_to_all], "
        "core sequence in order, core, core heads by rank, [core output all_to_all], "
        "core sequence in order");
}

TEST_CASE("What travels lives beside the kernel", "[lower]") {
  SmallUnit ring = attention(ContextKind::p2p);
  const lower::UnitMemory memory = ring.build().memory;
  // Forward: keys and values of every step, and its result. Backward: two buffers of keys and their
  // gradients, and a step's own gradients.
  CHECK(ring.bytes(memory.forward, "core workspace") == 2 * 2 * kPart + 2 * kPart);
  CHECK(ring.bytes(memory.backward, "core backward workspace") == 5 * 2 * kPart + kPart);
  SmallUnit heads = attention(ContextKind::a2a);
  CHECK(heads.bytes(heads.build().memory.saved, "core copy") == kPart);
}

TEST_CASE("Unfused products pass keys round for scores and values for results", "[lower]") {
  SmallUnit scores = product("scores");
  CHECK(scores.forward() == "<scores k>, scores, join context, scores");
  CHECK(scores.backward() ==
        "<scores k>, scores backward, join context, scores backward, scores backward, "
        "[scores k grad all_reduce]");
  SmallUnit results = product("results");
  CHECK(results.forward() == "<results v>, results, join context, results");
}

TEST_CASE("Attention over context ranks runs at the clock of a step of training") {
  hardware::Device h100 = test::made_up_device();
  h100.name = "h100-sxm";
  h100.sms = 132;
  h100.memory_bandwidth = Bandwidth(3.35e12);
  cost::CurveTable curves;
  const cost::Kernels kernels(h100, "", STEPCAST_SOURCE_DIR "/calibration", {}, curves);
  cost::AttentionQuery query;
  query.kernel = job::AttentionKernel::flash3;
  query.shape = model::AttentionShape{1, 1 << 14, 1 << 14, 32, 32, 128, 128};
  query.shape.causal = false;
  const Time burst = kernels.attention(query).time;
  query.training = true;
  const Time trained = kernels.attention(query).time;
  REQUIRE(trained > burst);  // the curve states what steps of training sustain

  SmallUnit unit = attention(ContextKind::p2p);
  unit.plan.style.attention = query.kernel;
  unit.graph.operators[0].attention = query.shape;
  unit.graph.operators[0].attention->key_length = 1 << 15;
  const lower::Passes passes = lower::build_passes(
      unit.graph, {&unit.plan, &kernels, &unit.labels, &unit.book}, unit.redone);
  int steps = 0;
  for (const lower::Item& item : passes.forward) {
    if (unit.text({item}) == "core") {
      CHECK(item.duration == trained);
      ++steps;
    }
  }
  CHECK(steps == 2);
}

TEST_CASE("Packed documents on one rank leave a share of the scores", "[lower]") {
  SmallUnit unit = attention(ContextKind::p2p);
  unit.plan.shard.context = unit.plan.grid.context = 1;
  unit.graph.operators[0].attention->query_length = 1 << 15;
  unit.graph.operators[0].attention->key_length = 1 << 15;
  const Time whole = unit.build().forward.front().duration;
  unit.plan.documents = {1 << 14};
  CHECK(unit.forward() == "core");
  const Time half = unit.build().forward.front().duration;
  CHECK(to_seconds(half) / to_seconds(whole) == Approx(0.5).epsilon(0.1));
}
