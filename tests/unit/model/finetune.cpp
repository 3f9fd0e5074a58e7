// Adapters: the number of trained parameters equals PEFT's, the base has no gradients and keeps no
// inputs for them, and quantised weights take NF4's bytes.
#include <algorithm>
#include <set>
#include <string>

#include "catch.hpp"
#include "models.h"
#include "stepcast/job/facts.h"
#include "stepcast/model/count.h"
#include "stepcast/model/operators.h"

using namespace stepcast;
using Kind = job::Finetune::Kind;

namespace {

struct Totals {
  std::int64_t trained = 0;
  std::int64_t frozen = 0;
  double frozen_bytes = 0;
  double forward = 0;
  double input_grad = 0;
  double weight_grad = 0;
  std::int64_t saved = 0;
  std::int64_t dequantized = 0;  // elements
};

Totals totals(const job::Model& m, const job::Finetune& finetune, int tensor = 1,
              bool packed = false) {
  model::Style style;
  style.finetune = finetune;
  style.fused_qkv = packed;  // PEFT's models have separate projections q, k and v
  model::Shard shard;
  shard.sequence_length = 2048;
  shard.tensor = tensor;
  shard.sequence_parallel = tensor > 1;
  Totals t;
  const auto add = [&](const model::OperatorGraph& g, int times) {
    std::set<std::uint32_t> storages;
    for (const auto& op : g.operators) {
      t.trained += times * op.parameters;
      t.frozen += times * op.frozen;
      t.frozen_bytes +=
          times * static_cast<double>(op.frozen) * (op.frozen_width > 0 ? op.frozen_width : 2);
      t.forward += times * op.forward.count();
      t.input_grad += times * op.input_grad.count();
      t.weight_grad += times * op.weight_grad.count();
      for (const auto& s : op.saved) {
        t.saved += storages.insert(s.storage).second ? times * s.bytes.count() : 0;
      }
      t.dequantized += op.name == "dequantize" ? times * op.forward_temporary.count() / 2 : 0;
    }
  };
  add(model::build_embedding(m, shard, style), 1);
  add(model::build_layer(m, model::layer_kind(m, 0), shard, style), m.layers);
  add(model::build_head(m, shard, style), 1);
  return t;
}

const std::vector<std::string> kAll = {"q", "k", "v", "o", "gate", "up", "down"};

}  // namespace

TEST_CASE("Trained parameters are those that PEFT prints") {
  const job::Model llama2 = test::llama("llama-2-7b", 32, 4096, 32, 32, 11008, 32000);
  // print_trainable_parameters() of published recipes: r = 8 on q and v of Llama 2 7B; r = 16 on q
  // and v, and on all seven matrices, of Llama 3 8B.
  CHECK(totals(llama2, {Kind::lora, 8, {"q", "v"}}).trained == 4194304);
  CHECK(totals(test::llama3_8b(), {Kind::lora, 16, {"q", "v"}}).trained == 6815744);
  CHECK(totals(test::llama3_8b(), {Kind::lora, 16, kAll}).trained == 41943040);
  CHECK(totals(llama2, {Kind::qlora, 64, kAll}).trained == 159907840);
  // Two bottlenecks per layer: 2 r h + r + h each.
  CHECK(totals(llama2, {Kind::adapter, 64, {}}).trained == 32 * 2 * (2 * 64 * 4096 + 64 + 4096));
}

TEST_CASE("The base is frozen: whole, without gradients of its own") {
  const job::Model m = test::llama3_8b();
  const Totals full = totals(m, {});
  const Totals lora = totals(m, {Kind::lora, 16, kAll});
  CHECK(full.frozen == 0);
  CHECK(lora.frozen == model::count_parameters(m).total);
  // Only the adapters' products: 2 m r (d_in + d_out) = 2 x tokens x trained parameters.
  CHECK(lora.weight_grad == Approx(2.0 * 2048 * 41943040));
  CHECK(lora.forward == Approx(full.forward + 2.0 * 2048 * 41943040));
  CHECK(lora.input_grad == Approx(full.input_grad + 2.0 * 2048 * 41943040));
  // Fewer targets keep fewer inputs.
  CHECK(totals(m, {Kind::lora, 16, {"q", "v"}}).saved < lora.saved);
}

TEST_CASE("Modules to save are trained as copies of frozen ones, which stay") {
  const job::Model m = test::llama3_8b();
  const std::int64_t table = 4096LL * m.vocab;  // untied: the head has as many
  job::Finetune both{Kind::lora, 16, kAll};
  both.modules_to_save = {"embedding", "head"};
  const Totals plain = totals(m, {Kind::lora, 16, kAll});
  const Totals saved = totals(m, both);
  CHECK(saved.trained == plain.trained + 2 * table);
  CHECK(saved.frozen == plain.frozen);
  // The head's weight gradient is the only product more; the head keeps its input for it.
  CHECK(saved.weight_grad == Approx(plain.weight_grad + 2.0 * 2048 * static_cast<double>(table)));
  CHECK(saved.forward == Approx(plain.forward));
  CHECK(saved.saved > plain.saved);
  both.modules_to_save = {"head"};
  CHECK(totals(m, both).trained == plain.trained + table);
}

TEST_CASE(
    "QLoRA holds half a byte and a constant's share of each matrix, and makes 16 bits of it") {
  const job::Model m = test::llama3_8b();
  const Totals q = totals(m, {Kind::qlora, 16, kAll});
  const std::int64_t matrices = 32LL * (4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336);
  const std::int64_t rest = model::count_parameters(m).total - matrices;
  // 4.127 bits per element (Dettmers et al., section 3); tables, head and norms stay in 16 bits.
  CHECK(q.frozen_bytes ==
        Approx(4.127 / 8 * static_cast<double>(matrices) + 2.0 * static_cast<double>(rest)));
  CHECK(q.dequantized == matrices);
}

TEST_CASE("Tensor ranks share an adapter: one of its matrices whole, the other cut") {
  const job::Model m = test::llama3_8b();
  // q: A of 16 x 4096 is whole, B of 4096 x 16 is sharded; o: A is sharded, B is whole.
  CHECK(totals(m, {Kind::lora, 16, {"q"}}, 4).trained == 32 * 16 * (4096 + 4096 / 4));
  CHECK(totals(m, {Kind::lora, 16, {"o"}}, 4).trained == 32 * 16 * (4096 / 4 + 4096));
}

TEST_CASE("A step on a frozen base needs two forwards, attention three, and the adapters' own") {
  job::Job job;
  job.system.habits.packs_projections = false;
  job.model = test::llama3_8b();
  job.workload.sequence_length = 2048;
  const double whole = model::training_flops(job, 4).count();
  CHECK(whole ==
        model::step_flops(job.model, 2048, 4, model::FlopConvention::megatron_causal).count());
  job.workload.finetune = {Kind::lora, 16, kAll};
  const double attention = 32.0 * 2 * 2048 * 2048 * 4096;  // causal, both products, all layers
  const double matrices = whole / 4 / 3 - attention;
  CHECK(model::training_flops(job, 4).count() / 4 ==
        Approx(2 * matrices + 3 * attention + 3 * 2.0 * 2048 * 41943040));
}

TEST_CASE("A packed projection has one pair of matrices when all of it is adapted") {
  const job::Model m = test::llama("llama-2-7b", 32, 4096, 32, 32, 11008, 32000);
  const Totals whole = totals(m, {Kind::lora, 8, {"q", "k", "v"}}, 1, true);
  CHECK(whole.trained == 32 * 8 * (4096 + 3 * 4096));
  // Their results are scattered into the columns of the product, and the scattered tensors are
  // kept: q and v in 16 bits.
  const Totals parts = totals(m, {Kind::lora, 8, {"q", "v"}}, 1, true);
  CHECK(parts.trained == 4194304);
  CHECK(parts.saved - totals(m, {Kind::lora, 8, {"q"}}, 1, true).saved ==
        32LL * 2048 * 2 * (4096 + 8));
}

TEST_CASE("LoRA's dropout keeps a mask and its result, of a packed projection once") {
  const job::Model m = test::llama("llama-2-7b", 32, 4096, 32, 32, 11008, 32000);
  const auto saved = [&](std::vector<std::string> targets, double dropout, bool packed) {
    return totals(m, {Kind::lora, 8, std::move(targets), dropout}, 1, packed).saved;
  };
  const std::int64_t mask = 32LL * 2048 * 4096;
  // Only frozen products read the norm's output, so it is not kept.
  CHECK(saved({"q"}, 0.05, false) - saved({"q"}, 0, false) == mask);
  CHECK(saved({"q", "v"}, 0.05, true) - saved({"q", "v"}, 0, true) == mask);
  CHECK(saved({"q", "v"}, 0.05, false) - saved({"q", "v"}, 0, false) == 2 * mask + 2 * mask);
}

TEST_CASE("Without double quantisation a block of 64 has an fp32 constant") {
  const job::Model m = test::llama3_8b();
  job::Finetune plain{Kind::qlora, 16, kAll};
  const double twice = totals(m, plain).frozen_bytes;
  plain.double_quantized = false;
  const std::int64_t matrices = 32LL * (4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336);
  CHECK(totals(m, plain).frozen_bytes - twice ==
        Approx((4.0 / 64 - 0.127 / 8) * static_cast<double>(matrices)));
}

TEST_CASE("AutoGPTQ's weights are made in the forward pass and kept for the backward pass") {
  const job::Model m = test::llama3_8b();
  const std::int64_t matrices = 32LL * (4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336);
  job::Finetune gptq{Kind::qlora, 16, kAll};
  const Totals nf4 = totals(m, gptq);
  gptq.base = QuantizedBase::gptq;
  const Totals q = totals(m, gptq);
  // Of 128 integers of 4 bits a scale in 16 bits and a zero in 4.
  CHECK(q.frozen_bytes - nf4.frozen_bytes ==
        Approx((4 + 20.0 / 128 - 4.127) / 8 * static_cast<double>(matrices)));
  CHECK(q.saved - nf4.saved == 2 * matrices);
  model::Style style;
  style.finetune = gptq;
  style.fused_qkv = false;
  model::Shard shard;
  shard.sequence_length = 2048;
  std::int64_t elements = 0;
  double moved = 0;
  for (const auto& op : model::build_layer(m, model::layer_kind(m, 0), shard, style).operators) {
    if (op.name == "dequantize") {
      moved += static_cast<double>(op.forward_moved.count());
      CHECK(op.backward_moved == Bytes(0));
      CHECK(op.backward_kernels == 0);
    }
    elements += op.frozen_width > 0 ? op.frozen : 0;
  }
  // 4.5 bytes by the shift, 5 by the cast to int8, 2 each by the mask and the difference, 3 by the
  // product with the scales.
  CHECK(moved == Approx(16.5 * static_cast<double>(elements)));
}

namespace {

struct Prompted {
  std::int64_t trained = 0, prompts = 0, kept = 0;
  double input_grad = 0;
};

// The layers one by one, as litgpt's adapters tell them apart, and the head.
Prompted prompted(job::Model m, Kind kind) {
  job::Job j;
  j.workload.finetune.kind = kind;
  j.system.input_gradients = false;
  j.model = m;
  m.tuned = job::tuned_layers(j);
  model::Style style;
  style.finetune = j.workload.finetune;
  model::Shard shard;
  shard.sequence_length = 2048;
  Prompted out;
  const auto add = [&](const model::OperatorGraph& g) {
    for (const auto& op : g.operators) {
      out.trained += op.parameters;
      out.prompts += op.name == "prompt_attention" ? op.frozen : 0;
      out.input_grad += op.input_grad.count();
      for (const auto& s : op.saved) {
        out.kept += s.bytes.count();
      }
    }
  };
  for (int layer = 0; layer < m.layers; ++layer) {
    add(model::build_layer(m, model::layer_kind(m, layer), shard, style));
  }
  add(model::build_head(m, shard, style));
  return out;
}

}  // namespace

TEST_CASE("LLaMA-Adapter trains what litgpt's finetune scripts print") {
  const job::Model llama2 = test::llama("llama-2-7b", 32, 4096, 32, 32, 11008, 32000);
  const Prompted first = prompted(llama2, Kind::llama_adapter);
  CHECK(first.prompts == 30 * 10 * 4096);
  CHECK(first.trained + first.prompts == 1229760);  // tutorials/resource-tables.md
  const Prompted second = prompted(llama2, Kind::llama_adapter_v2);
  CHECK(second.trained + second.prompts == 4279744);
  // Version 2 keeps what it scales of each product, and has gradients down to the first layer.
  CHECK(second.kept > first.kept * 3 / 2);
  CHECK(second.input_grad > first.input_grad);
}

TEST_CASE("Below what is trained nothing is kept and no gradient computed") {
  const job::Model m = test::llama3_8b();
  model::Style style;
  style.finetune = {Kind::lora, 16, {"q", "v"}};
  model::Shard shard;
  shard.sequence_length = 2048;
  model::LayerKind kind = model::layer_kind(m, 0);
  const model::OperatorGraph with = model::build_layer(m, kind, shard, style);
  kind.stops_gradient = true;
  const model::OperatorGraph without = model::build_layer(m, kind, shard, style);
  REQUIRE(with.operators.size() == without.operators.size());
  for (std::size_t i = 0; i < with.operators.size(); ++i) {
    const model::Operator& op = without.operators[i];
    CAPTURE(op.name);
    CHECK(op.forward == with.operators[i].forward);
    CHECK(op.parameters == with.operators[i].parameters);
    CHECK(op.weight_grad == with.operators[i].weight_grad);
    if (op.name == "attention_norm" || op.name == "qkv") {
      CHECK(op.forward_only);
      CHECK(op.saved.empty());
      CHECK(op.input_grad.count() == 0);
    }
    if (op.name == "lora_q_a") {  // its weight's gradient reads its input
      CHECK(op.input_grad.count() == 0);
      CHECK(op.saved.size() == 1);
    }
    if (op.name == "fc1") {
      CHECK(op.input_grad == with.operators[i].input_grad);
    }
  }
}

TEST_CASE("Lightning's plugin quantises the head, and litgpt keeps the embedding three times") {
  const job::Model m = test::llama3_8b();
  model::Style style;
  style.finetune = {Kind::qlora, 16, {"q", "v"}};
  model::Shard shard;
  shard.sequence_length = 2048;
  const auto head = [&](Quantizer by) {
    style.quantizer = by;
    const model::OperatorGraph g = model::build_head(m, shard, style);
    return std::find_if(g.operators.begin(), g.operators.end(),
                        [](const model::Operator& op) { return op.name == "output"; })
        ->frozen_width;
  };
  CHECK(head(Quantizer::hugging_face) == 0);
  CHECK(head(Quantizer::lightning) > 0.5);
  const auto frozen = [&](Quantizer by) {
    style.quantizer = by;
    return model::build_embedding(m, shard, style).operators.front().frozen;
  };
  CHECK(frozen(Quantizer::lightning) == frozen(Quantizer::hugging_face));
  CHECK(frozen(Quantizer::stable_embedding) == 3 * frozen(Quantizer::lightning));
}
