// LAW  What a unit's passes hold, tensor by tensor: kept tensors add up to what its operators save
//      (Korthikanti et al., arXiv 2205.05198, equations 1, 2 and 4), a pass adds to them exactly
//      what its tensors need at once, and only results and gradients cross the unit's border.
#include "stepcast/lower/unit_memory.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <random>
#include <string>

#include "../unit/model/models.h"
#include "catch.hpp"
#include "stepcast/model/operators.h"

using namespace stepcast;
using lower::UnitMemory;
using program::Block;

namespace {

constexpr std::uint16_t kEnd = 0xffff;
// Behind the last place of the examples, which have fewer operators.
constexpr int kPlaces = 100 * static_cast<int>(lower::kPlacesOfOperator);

std::int64_t whole(std::int64_t bytes) { return (bytes + 511) / 512 * 512; }

// The definition: for each position, the sum of all blocks that are live there.
std::int64_t most(const std::vector<Block>& blocks) {
  std::int64_t peak = 0;
  for (int place = 0; place < kPlaces; ++place) {
    std::int64_t live = 0;
    for (const Block& b : blocks) {
      live += b.begin <= place && place <= b.end ? whole(b.bytes.count()) : 0;
    }
    peak = std::max(peak, live);
  }
  return peak;
}

struct Named {
  UnitMemory unit;
  std::vector<std::string> labels;
};

Named memory_of(const model::OperatorGraph& graph, std::int64_t input,
                lower::UnitOptions options = {}) {
  Named out;
  options.input = input;
  options.rules.resize(graph.operators.size());
  out.unit = lower::unit_memory(graph, options, [&](const std::string& text) {
    const auto at = std::find(out.labels.begin(), out.labels.end(), text);
    const auto id = program::LabelIndex::at(at - out.labels.begin());
    if (at == out.labels.end()) {
      out.labels.push_back(text);
    }
    return id;
  });
  return out;
}

std::int64_t saved(const model::OperatorGraph& graph) {
  std::map<std::uint32_t, std::int64_t> storages;
  for (const auto& op : graph.operators) {
    for (const auto& s : op.saved) {
      storages[s.storage] = whole(s.bytes.count());
    }
  }
  std::int64_t sum = 0;
  for (const auto& [storage, bytes] : storages) {
    sum += bytes;
  }
  return sum;
}

model::Shard shard(std::int64_t b, std::int64_t s) {
  model::Shard out;
  out.sequences = b;
  out.sequence_length = s;
  return out;
}

struct Example {
  std::string name;
  model::OperatorGraph graph;
  std::int64_t input;
};

std::vector<Example> examples() {
  std::vector<Example> out;
  auto gpt = test::gpt("gpt", 4, 1024, 16, 51200, 512);
  gpt.dropout = 0.1;
  const auto llama = test::llama("llama", 4, 1024, 16, 4, 3584, 32000);
  for (const bool fused : {true, false}) {
    for (const auto attention : {job::AttentionKernel::unfused, job::AttentionKernel::flash2}) {
      model::Style style;
      style.attention = attention;
      style.fused_norm = style.fused_softmax = style.fused_bias_activation = fused;
      style.fused_bias_dropout_add = style.fused_rotary = style.fused_qkv = fused;
      style.loss = fused ? job::LossKernel::vocab_parallel : job::LossKernel::eager;
      for (const auto& m : {gpt, llama}) {
        const auto s = shard(2, 512);
        const std::int64_t stream = 2 * 2 * 512 * m.hidden;
        const std::string name = m.name + (fused ? " fused" : " eager");
        out.push_back({name, build_layer(m, model::LayerKind::dense, s, style), stream});
        out.push_back({name + " head", build_head(m, s, style), stream});
        out.push_back({name + " embedding", build_embedding(m, s, style), 0});
      }
    }
  }
  return out;
}

}  // namespace

TEST_CASE("What blocks need at once is the most that live at any place") {
  std::mt19937 random(7);
  for (int n = 0; n < 200; ++n) {
    std::vector<Block> blocks(random() % 12);
    for (Block& b : blocks) {
      b.bytes = Bytes(random() % 5000);
      b.begin = static_cast<std::uint16_t>(random() % 10);
      b.end = random() % 3 == 0 ? kEnd : static_cast<std::uint16_t>(b.begin + random() % 10);
    }
    CHECK(lower::peak_beside(blocks, 0) == most(blocks));
    CHECK(lower::peak_beside(blocks, 3000) == std::max<std::int64_t>(0, most(blocks) - 3000));
  }
}

TEST_CASE("Kept tensors add up to what operators save, and each pass to its peak") {
  for (const Example& e : examples()) {
    INFO(e.name);
    const auto [unit, labels] = memory_of(e.graph, e.input);
    CHECK(unit.saved.bytes == saved(e.graph));
    CHECK(unit.kept.bytes + unit.weight_inputs.bytes == unit.saved.bytes);
    const auto n = static_cast<int>(e.graph.operators.size() * lower::kPlacesOfOperator);
    std::vector<Block> forward = unit.forward.blocks;
    std::vector<Block> backward = unit.backward.blocks;
    for (const Block& b : unit.saved.blocks) {
      CHECK(b.begin < n);
      CHECK(b.end < n);
      forward.push_back({b.bytes, b.label, b.begin, kEnd});
      backward.push_back({b.bytes, b.label, 0, b.end});
    }
    CHECK(unit.forward.bytes == std::max<std::int64_t>(0, most(forward) - unit.saved.bytes));
    CHECK(unit.backward.bytes == std::max<std::int64_t>(0, most(backward) - unit.saved.bytes));
    for (const auto* list : {&unit.forward, &unit.backward, &unit.input_grad, &unit.unkept}) {
      for (const Block& b : list->blocks) {
        CHECK(b.begin <= b.end);
        CHECK(b.begin < n);
      }
    }
    // Only the gradient of the input outlives the backward pass.
    std::int64_t left = 0;
    for (const Block& b : unit.backward.blocks) {
      left += b.end == kEnd ? b.bytes.count() : 0;
    }
    CHECK(left == e.input);
  }
}

TEST_CASE("A pass that keeps nothing needs less than one that keeps, and no less than a tensor") {
  for (const Example& e : examples()) {
    INFO(e.name);
    const auto [unit, labels] = memory_of(e.graph, e.input);
    CHECK(unit.unkept.bytes <= unit.saved.bytes + unit.forward.bytes);
    for (const Block& b : unit.unkept.blocks) {
      CHECK(unit.unkept.bytes >= b.bytes.count());
    }
  }
}

// One product makes tensors of its own for the parts of its result. Where it stands for several of
// the framework's, each part is a product's, and their bytes are the same together.
TEST_CASE("Results in parts are more tensors of the same bytes at the same places") {
  for (const Example& e : examples()) {
    INFO(e.name);
    lower::UnitOptions options;
    options.rules.resize(e.graph.operators.size());
    for (std::size_t i = 0; i < e.graph.operators.size(); ++i) {
      if (e.graph.operators[i].gemm) {
        options.rules[i].results = {0.5, 0.25, 0.25};
      }
    }
    const UnitMemory one = memory_of(e.graph, e.input).unit;
    const UnitMemory parts = memory_of(e.graph, e.input, options).unit;
    for (const auto list :
         {&UnitMemory::saved, &UnitMemory::forward, &UnitMemory::unkept, &UnitMemory::backward}) {
      const auto bytes_of = [&](const UnitMemory& unit) {
        std::map<std::pair<int, int>, std::int64_t> out;
        for (const Block& b : (unit.*list).blocks) {
          out[{b.begin, b.end}] += b.bytes.count();
        }
        return out;
      };
      const bool several = std::any_of(
          e.graph.operators.begin(), e.graph.operators.end(),
          [](const auto& op) { return op.gemm && op.parameters > 0 && op.forward_kernels == 3; });
      if (!several) {
        CHECK(bytes_of(one) == bytes_of(parts));
      }
      CHECK(one.saved.bytes == parts.saved.bytes);
      CHECK((one.*list).blocks.size() <= (parts.*list).blocks.size());
    }
  }
}

// What a policy keeps is the operator's own result: kept, and no temporary beside it.
TEST_CASE("A held result is kept for the backward pass and counted once") {
  for (const Example& x : examples()) {
    INFO(x.name);
    const UnitMemory without = memory_of(x.graph, x.input).unit;
    for (std::size_t i = 0; i < x.graph.operators.size(); ++i) {
      const std::int64_t result = x.graph.operators[i].forward_output.count();
      if (result == 0) {
        continue;
      }
      lower::UnitOptions options;
      options.held = {{i, result}};
      const UnitMemory with = memory_of(x.graph, x.input, options).unit;
      CHECK(with.saved.bytes == without.saved.bytes + whole(result));
      CHECK(with.forward.blocks.size() <= without.forward.blocks.size());
    }
  }
}

TEST_CASE("A unit without operators holds nothing") {
  const auto [unit, labels] = memory_of({}, 0);
  CHECK(unit.saved.blocks.empty());
  CHECK(unit.backward.bytes == 0);
}

TEST_CASE("Split backward passes free what weight gradients do not read") {
  for (const Example& e : examples()) {
    INFO(e.name);
    const auto [unit, labels] = memory_of(e.graph, e.input);
    // The gradient of each product is kept once, even if it is used more often.
    std::int64_t products = 0;
    for (const auto& op : e.graph.operators) {
      products += op.gemm && op.parameters > 0 ? whole(op.forward_output.count()) : 0;
    }
    CHECK(unit.output_gradients.bytes <= products);
    CHECK(unit.weight_inputs.bytes <= unit.saved.bytes);
  }
}

TEST_CASE("A Llama layer's tensors, one by one") {
  // Transformer Engine: MEMORY: residual stream, norm, q k v, core's output and statistics, stream,
  // norm, both halves of the first product, their activation.
  const auto m = test::llama("llama", 4, 1024, 16, 4, 3584, 32000);
  const auto graph = build_layer(m, model::LayerKind::dense, shard(2, 512), model::Style{});
  const std::int64_t t = 2 * 512;
  const auto [unit, labels] = memory_of(graph, 2 * t * 1024);
  std::vector<std::int64_t> bytes;
  for (const Block& b : unit.saved.blocks) {
    bytes.push_back(b.bytes.count());
  }
  const std::int64_t x = 2 * t * 1024;
  CHECK(bytes == std::vector<std::int64_t>{x, x, 2 * t * (16 + 8) * 64, x, 4 * t * 16, x, x,
                                           2 * t * 2 * 3584, 2 * t * 3584});
  // They are freed from the last to the first; the stream's tensor is freed with its norm.
  CHECK(unit.saved.blocks.front().end / lower::kPlacesOfOperator == graph.operators.size() - 1);
  CHECK(unit.saved.blocks.back().end < unit.saved.blocks.front().end);
}

namespace {

// A Llama layer by eager operators, whose rules say that q, k and v, and gate and up, are products
// of their own.
struct Eager {
  model::OperatorGraph graph;
  lower::UnitOptions options;
  std::int64_t input = 0;
};

Eager eager_llama(bool gate_first) {
  model::Style style;
  style.attention = job::AttentionKernel::flash2;
  style.fused_norm = true;
  style.fused_bias_activation = style.fused_rotary = style.fused_qkv = false;
  style.gate_first = gate_first;
  const auto m = test::llama("llama", 4, 1024, 16, 4, 3584, 32000);
  Eager out{build_layer(m, model::LayerKind::dense, shard(2, 512), style), {}, 2 * 2 * 512 * 1024};
  out.options.product_workspace = 1 << 20;
  for (const auto& op : out.graph.operators) {
    lower::TensorRules rules;
    if (op.name == "qkv") {
      rules.results = {16 / 24.0, 4 / 24.0, 4 / 24.0};
    } else if (op.name == "rotary") {
      rules.results = {16 / 20.0, 4 / 20.0};
    } else if (op.name == "fc1") {
      rules.results = {0.5, 0.5};
    }
    rules.gate_first = gate_first && op.kind == model::OpKind::activation;
    out.options.rules.push_back(rules);
  }
  return out;
}

Named memory_of(const Eager& e) {
  Named out;
  lower::UnitOptions options = e.options;
  options.input = e.input;
  out.unit = lower::unit_memory(e.graph, options, [&](const std::string& text) {
    out.labels.push_back(text);
    return program::LabelIndex::at(out.labels.size() - 1);
  });
  return out;
}

std::vector<Block> called(const Named& named, const std::vector<Block>& blocks,
                          const std::string& text) {
  std::vector<Block> out;
  std::copy_if(blocks.begin(), blocks.end(), std::back_inserter(out),
               [&](const Block& b) { return named.labels[b.label] == text; });
  return out;
}

}  // namespace

// q, k, v, out, gate, up, down: each product asks for scratch memory by itself, backward twice.
TEST_CASE("Products that stand for several run one by one") {
  const Named named = memory_of(eager_llama(true));
  CHECK(called(named, named.unit.forward.blocks, "GEMM workspace").size() == 7);
  CHECK(called(named, named.unit.backward.blocks, "GEMM workspace").size() == 14);
  CHECK(named.unit.saved.bytes == saved(eager_llama(true).graph));
  // Three gradients of the norm's result. The first is a view of its product's matrix, so that the
  // first sum is a new tensor, to which the third is added in place.
  CHECK(called(named, named.unit.backward.blocks, "qkv input gradient").size() == 3);
  CHECK(called(named, named.unit.backward.blocks, "qkv gradient sum").size() == 1);
}

// Megatron-LM's rotary positions: a cosine and a sine for queries, two more for keys.
TEST_CASE(
    "Tables that a layer makes for its rotary positions are kept, each by the product that reads "
    "it") {
  Eager made = eager_llama(false);
  const auto saved = [&] { return memory_of(made).unit.saved.blocks; };
  const auto before = saved().size();
  constexpr std::int64_t kTable = 512 * 64 * 2;
  for (model::Operator& op : made.graph.operators) {
    op.table = Bytes(op.name == "rotary" ? kTable : 0);
  }
  const auto blocks = saved();
  CHECK(blocks.size() == before + 4);
  CHECK(std::count_if(blocks.begin(), blocks.end(),
                      [&](const Block& b) { return b.bytes == Bytes(kTable); }) >= 4);
}

namespace {

// The same layer over fp32 parameters, whose products cast what they read.
Eager under_autocast() {
  Eager out = eager_llama(true);
  model::Style style;
  style.attention = job::AttentionKernel::flash2;
  style.fused_bias_activation = style.fused_rotary = style.fused_qkv = false;
  style.gate_first = style.autocast = true;
  const auto m = test::llama("llama", 4, 1024, 16, 4, 3584, 32000);
  out.graph = build_layer(m, model::LayerKind::dense, shard(2, 512), style);
  out.input *= 2;
  out.options.rules.clear();
  for (const auto& op : out.graph.operators) {
    lower::TensorRules rules;
    rules.promotion = op.name == "rotary" ? 2 : 1;
    if (op.name == "qkv") {
      rules.results = {16 / 24.0, 4 / 24.0, 4 / 24.0};
    } else if (op.name == "rotary") {
      rules.results = {16 / 20.0, 4 / 20.0};
    } else if (op.name == "fc1") {
      rules.results = {0.5, 0.5};
    }
    rules.gate_first = op.kind == model::OpKind::activation;
    out.options.rules.push_back(rules);
  }
  return out;
}

}  // namespace

// A copy of each weight, ahead of that of its input; without autograd the cache alone holds the
// former, and the latter live for their product.
TEST_CASE("Each product under autocast casts its own operands") {
  const Eager e = under_autocast();
  const Named named = memory_of(e);
  CHECK(named.unit.saved.bytes == saved(e.graph));
  REQUIRE(named.unit.cached.blocks.size() == 7);
  const std::int64_t weights = 2 * (1024 * (16 + 8) * 64 + 1024 * 1024 + 3 * 1024 * 3584);
  CHECK(named.unit.cached.bytes == weights);
  // q, k, v, gate, up: of the same normed stream; fp32 gradients of the first of each are added up.
  const std::int64_t copy = 2 * 2 * 512 * 1024;
  const std::vector<Block> copies = called(named, named.unit.unkept.blocks, "qkv input");
  REQUIRE(copies.size() == 3);
  for (const Block& b : copies) {
    CHECK(b.bytes.count() == copy);
    CHECK(b.end - b.begin < static_cast<int>(lower::kPlacesOfOperator) / 2);
  }
  CHECK(called(named, named.unit.backward.blocks, "qkv_casts input gradient").size() == 3);
  CHECK(called(named, named.unit.backward.blocks, "qkv_casts gradient sum").empty());
}

// The table is in fp32, and so are rotated queries, which attention reads in 16 bits.
TEST_CASE("Under autocast queries are rotated in fp32") {
  const Named named = memory_of(under_autocast());
  const std::int64_t queries = 2 * 2 * 512 * 1024;
  const std::vector<Block> sums = called(named, named.unit.forward.blocks, "rotary sum result");
  REQUIRE(sums.size() == 2);
  CHECK(sums.front().bytes.count() == 2 * queries);
}

namespace {

// torchtune's layer: keys and values repeated for every query head, positions by pairs.
Eager rotated_by_pairs() {
  model::Style style;
  style.attention = job::AttentionKernel::flash2;
  style.fused_norm = style.paired_rotary = style.repeats_kv = style.gate_first = true;
  style.fused_bias_activation = style.fused_rotary = style.fused_qkv = false;
  Eager out = eager_llama(true);
  const auto m = test::llama("llama", 4, 1024, 16, 4, 3584, 32000);
  out.graph = build_layer(m, model::LayerKind::dense, shard(2, 512), style);
  out.options.rules.clear();
  for (const auto& op : out.graph.operators) {
    lower::TensorRules rules;
    if (op.name == "qkv") {
      rules.results = {16 / 24.0, 4 / 24.0, 4 / 24.0};
    } else if (op.name == "rotary") {
      rules.results = {16 / 20.0, 4 / 20.0};
    } else if (op.name == "fc1") {
      rules.results = {0.5, 0.5};
    }
    rules.gate_first = op.kind == model::OpKind::activation;
    out.options.rules.push_back(rules);
  }
  return out;
}

}  // namespace

// torchtune 0.6.1, modules/position_embeddings.py:102: x.float(), every second number times a
// cosine or a sine, torch.stack. Queries are rotated ahead of k_proj (modules/attention.py:242).
TEST_CASE("Pairs are rotated in fp32 and stacked, the queries' ahead of the keys' projection") {
  const Eager e = rotated_by_pairs();
  const Named named = memory_of(e);
  CHECK(named.unit.saved.bytes == saved(e.graph));
  const std::int64_t queries = 2 * 2 * 512 * 1024, keys = queries / 4;  // in 16 bits
  const auto& forward = named.unit.forward.blocks;
  const auto copies = called(named, forward, "rotary cast result");
  const auto stacks = called(named, forward, "rotary stack result");
  const auto products = called(named, forward, "qkv result");
  REQUIRE(copies.size() == 2);
  REQUIRE(stacks.size() == 2);
  REQUIRE(products.size() == 3);
  CHECK(copies[0].bytes.count() == 2 * queries);
  CHECK(copies[1].bytes.count() == 2 * keys);
  CHECK(copies[0].end == stacks[0].end);    // both are variables of the function
  CHECK(products[0].end >= stacks[0].end);  // its caller's
  CHECK(stacks[0].end < products[1].begin);
  CHECK(products[2].begin < copies[1].begin);
  for (const char* half : {"rotary difference result", "rotary sum result"}) {
    const auto made = called(named, forward, half);
    REQUIRE(made.size() == 2);
    CHECK(made[0].bytes.count() == queries);  // half of the numbers, of twice the bytes
    CHECK(made[0].end < stacks[0].end);
  }
  // Backward: zeros as large as the copy for each of the four views, the last three added in place.
  const auto zeros = called(named, named.unit.backward.blocks, "rotary half input gradient");
  REQUIRE(zeros.size() == 8);
  CHECK(zeros.back().bytes.count() == 2 * queries);
  // Attention keeps rotated queries and copies of keys and values, each a tensor.
  const auto kept = called(named, named.unit.saved.blocks, "kv_repeat output");
  REQUIRE(kept.size() == 2);
  CHECK(kept[0].bytes.count() == queries);
}

// transformers 5.23, models/llama/modeling_llama.py:61: a cast to fp32, its square, the scaled
// copy, that cast back, the product with the weight; the cast and what the weight scales are kept.
TEST_CASE("A norm in Python runs operator by operator") {
  model::Style style;
  style.attention = job::AttentionKernel::flash2;
  style.fused_norm = style.fused_bias_activation = style.fused_rotary = style.fused_qkv = false;
  const auto m = test::llama("llama", 4, 1024, 16, 4, 3584, 32000);
  Eager e{build_layer(m, model::LayerKind::dense, shard(2, 512), style), {}, 2 * 2 * 512 * 1024};
  e.options.rules.resize(e.graph.operators.size());
  const std::int64_t sums = 5 << 20;  // of the weight's gradient
  for (std::size_t i = 0; i < e.graph.operators.size(); ++i) {
    if (e.graph.operators[i].name == "mlp_norm") {
      e.options.rules[i].scratch.works = {sums};
    }
  }
  const Named named = memory_of(e);
  CHECK(named.unit.saved.bytes == saved(e.graph));
  const std::int64_t narrow = 2 * 2 * 512 * 1024, wide = 2 * narrow;
  const auto& forward = named.unit.forward.blocks;
  const auto square = called(named, forward, "mlp_norm square result");
  const auto scaled = called(named, forward, "mlp_norm scaled result");
  REQUIRE(square.size() == 1);
  REQUIRE(scaled.size() == 1);
  CHECK(square[0].bytes.count() == wide);
  CHECK(square[0].end < scaled[0].begin);
  const auto& kept = named.unit.saved.blocks;
  REQUIRE(called(named, kept, "mlp_norm cast output").size() == 1);
  CHECK(called(named, kept, "mlp_norm cast output")[0].bytes.count() == wide);
  REQUIRE(called(named, kept, "mlp_norm cast back output").size() == 1);
  CHECK(called(named, kept, "mlp_norm cast back output")[0].bytes.count() == narrow);
  // Backward: of the weight the product and its sum; of the square x^1 and its double, beside the
  // gradient of the mean, spread over the row.
  const auto& back = named.unit.backward.blocks;
  const auto weight = called(named, back, "mlp_norm weighed backward workspace");
  REQUIRE(weight.size() == 2);
  CHECK(weight[0].bytes.count() == narrow);
  CHECK(weight[1].bytes.count() == sums);
  const auto powers = called(named, back, "mlp_norm square backward workspace");
  REQUIRE(powers.size() == 2);
  CHECK(powers[0].bytes.count() == wide);
  CHECK(called(named, back, "mlp_norm mean input gradient").size() == 1);
}

// QLoRA: each 4-bit product dequantises its weight by itself, and its adapter runs behind it
// (bitsandbytes 0.50.2, backends/cuda/ops.py:902; PEFT 0.21.2, tuners/lora/layer.py:1102).
TEST_CASE("A frozen product makes its own weight, and its adapter follows") {
  model::Style style;
  style.attention = job::AttentionKernel::flash2;
  style.fused_norm = style.gate_first = true;
  style.fused_bias_activation = style.fused_rotary = style.fused_qkv = false;
  style.finetune.kind = job::Finetune::Kind::qlora;
  style.finetune.rank = 16;
  style.finetune.double_quantized = true;
  style.finetune.targets = {"q", "k", "v", "o", "gate", "up", "down"};
  const auto m = test::llama("llama", 4, 1024, 16, 4, 3584, 32000);
  Eager e{build_layer(m, model::LayerKind::dense, shard(2, 512), style), {}, 2 * 2 * 512 * 1024};
  for (const auto& op : e.graph.operators) {
    lower::TensorRules rules;
    if (op.name == "qkv") {
      rules.results = {16 / 24.0, 4 / 24.0, 4 / 24.0};
    } else if (op.name == "rotary") {
      rules.results = {16 / 20.0, 4 / 20.0};
    } else if (op.name == "fc1") {
      rules.results = {0.5, 0.5};
    }
    rules.gate_first = op.kind == model::OpKind::activation;
    e.options.rules.push_back(rules);
  }
  const Named named = memory_of(e);
  CHECK(named.unit.saved.bytes == saved(e.graph));
  const auto& forward = named.unit.forward.blocks;
  const auto made = called(named, forward, "dequantize result");
  REQUIRE(made.size() == 7 * 3);  // constants, with their offset, the weight
  const std::int64_t queries = 1024 * 16 * 64, keys = 1024 * 4 * 64;
  CHECK(made[0].bytes.count() == 4 * queries / 64);
  CHECK(made[2].bytes.count() == 2 * queries);
  CHECK(made[5].bytes.count() == 2 * keys);
  CHECK(made[2].end < made[3].begin);
  // The adapter's result is scaled and added ahead of the next product.
  const auto scaled = called(named, forward, "lora_q_add scaled result");
  REQUIRE(scaled.size() == 1);
  CHECK(scaled[0].begin > made[2].end);
  CHECK(scaled[0].end < made[3].begin);
  // So is the gate's, ahead of its activation.
  const auto gate = called(named, forward, "lora_gate_add scaled result");
  const auto up = called(named, forward, "lora_up_add scaled result");
  REQUIRE(gate.size() == 1);
  REQUIRE(up.size() == 1);
  CHECK(gate[0].end < made[15].begin);
  CHECK(up[0].begin > made[17].end);
  // Backward the weight is made once more for the gradient of the input.
  const auto again = called(named, named.unit.backward.blocks, "qkv backward workspace");
  REQUIRE(again.size() == 3 * 2);
  CHECK(again.back().bytes.count() == 2 * queries);
}

// Megatron-LM's and litgpt's: queries and keys are views of the projection, whose gradient joins
// those of all three (megatron-core 0.8.0, models/common/embeddings/rotary_pos_embedding.py:197).
TEST_CASE("Parts of a packed projection are rotated one by one") {
  model::Style style;
  style.attention = job::AttentionKernel::flash2;
  style.fused_norm = style.fused_qkv = true;
  style.fused_rotary = false;
  const auto m = test::llama("llama", 4, 1024, 16, 4, 3584, 32000);
  const std::int64_t t = 2 * 512, head = 2 * t * 64;
  Eager e{build_layer(m, model::LayerKind::dense, shard(2, 512), style), {}, 2 * t * 1024};
  for (const auto& op : e.graph.operators) {
    lower::TensorRules rules;
    if (op.name == "rotary") {
      rules.results = {16 / 20.0, 4 / 20.0};
    }
    e.options.rules.push_back(rules);
  }
  const Named named = memory_of(e);
  CHECK(named.unit.saved.bytes == saved(e.graph));
  const auto rotated = called(named, named.unit.saved.blocks, "rotary result output");
  REQUIRE(rotated.size() == 2);
  CHECK(rotated[0].bytes.count() == 16 * head);
  CHECK(rotated[1].bytes.count() == 4 * head);
  const auto joined = called(named, named.unit.backward.blocks, "rotary part input gradient");
  REQUIRE(joined.size() == 1);
  CHECK(joined[0].bytes.count() == 24 * head);
  // The copy of the queries is given up once they are rotated, or when attention returns; the
  // projection's result, of which the values are a view, when attention returns.
  const auto copies = [&](const Named& of) {
    return called(of, of.unit.forward.blocks, "rotary part result");
  };
  REQUIRE(copies(named).size() == 1);
  e.options.holds_projection = true;
  const Named held = memory_of(e);
  REQUIRE(copies(held).size() == 1);
  CHECK(copies(held)[0].end > copies(named)[0].end);
  const auto out = called(held, held.unit.forward.blocks, "out result");
  REQUIRE(out.size() == 1);
  CHECK(copies(held)[0].end > out[0].begin);
  const auto projection = called(held, held.unit.unkept.blocks, "qkv output");
  REQUIRE(projection.size() == 1);
  CHECK(projection[0].end > out[0].begin);
}

// megatron-core 0.16.1, tensor_parallel/layers.py:531 and :614: what a product reads has its
// gradient ahead of the weight's. Either way each is made with a workspace of its own.
TEST_CASE("The gradient of a product's input comes ahead of its weight's, or behind it") {
  Eager e = eager_llama(true);
  for (std::size_t i = 0; i < e.graph.operators.size(); ++i) {
    if (e.graph.operators[i].name == "fc2") {
      e.options.rules[i].weight_gradient = 1 << 20;
    }
  }
  for (const bool first : {false, true}) {
    e.options.input_gradient_first = first;
    const Named named = memory_of(e);
    const auto& blocks = named.unit.backward.blocks;
    const auto input = called(named, blocks, "fc2 input gradient");
    const auto weight = called(named, blocks, "fc2 backward workspace");
    REQUIRE(input.size() == 1);
    REQUIRE(weight.size() == 1);
    CHECK((input[0].begin < weight[0].begin) == first);
    CHECK(called(named, blocks, "GEMM workspace").size() == 14);
  }
}

// A row-parallel product's sum is scattered over the sequence: the part that stays is made behind
// the product's workspace, and where chunks are joined first, beside their copy.
TEST_CASE("A scattered result is made behind the whole product") {
  Eager e = eager_llama(true);
  std::int64_t whole_bytes = 0;
  for (std::size_t i = 0; i < e.graph.operators.size(); ++i) {
    if (e.graph.operators[i].name == "fc2") {
      whole_bytes = e.graph.operators[i].forward_output.count();
      e.options.rules[i].scatter.parts = 4;
      e.options.rules[i].forward = e.options.rules[i].scatter.joined = whole_bytes;
    }
  }
  const Named named = memory_of(e);
  const auto& blocks = named.unit.forward.blocks;
  const auto product = called(named, blocks, "fc2 workspace");
  const auto joined = called(named, blocks, "fc2 joined chunks");
  const auto part = called(named, blocks, "fc2 result");
  REQUIRE((product.size() == 1 && joined.size() == 1 && part.size() == 1));
  CHECK(part[0].bytes.count() == whole_bytes / 4);
  CHECK(product[0].begin < joined[0].begin);
  CHECK(part[0].begin == joined[0].begin);
  CHECK(product[0].end == joined[0].end);
}

// torchtitan 0.3.0, models/common/attention.py:850: the parts of one projection made contiguous,
// then rotated in complex numbers. Backward, their gradients wait to be joined.
TEST_CASE("The parts of a packed projection are tensors of their own, joined once in backward") {
  model::Style style;
  style.attention = job::AttentionKernel::flash2;
  style.fused_norm = style.copied_qkv = style.complex_rotary = true;
  style.fused_bias_activation = style.fused_rotary = style.fused_qkv = false;
  const auto m = test::llama("llama", 4, 1024, 16, 4, 3584, 32000);
  const std::int64_t t = 2 * 512, head = 2 * t * 64;  // bytes of a head
  Eager e{build_layer(m, model::LayerKind::dense, shard(2, 512), style), {}, 2 * t * 1024};
  for (const auto& op : e.graph.operators) {
    lower::TensorRules rules;
    if (op.name == "rotary") {
      rules.results = {16 / 20.0, 4 / 20.0};
    }
    e.options.rules.push_back(rules);
  }
  const Named named = memory_of(e);
  CHECK(named.unit.saved.bytes == saved(e.graph));
  const auto parts = called(named, named.unit.forward.blocks, "qkv_split result");
  REQUIRE(parts.size() == 2);  // queries and keys, up to their rotation
  CHECK(parts[0].bytes.count() == 16 * head);
  CHECK(parts[1].bytes.count() == 4 * head);
  const auto values = called(named, named.unit.saved.blocks, "qkv_split output");
  REQUIRE(values.size() == 1);
  CHECK(values[0].bytes.count() == 4 * head);
  const auto joined = called(named, named.unit.backward.blocks, "qkv_split input gradient");
  REQUIRE(joined.size() == 1);
  CHECK(joined[0].bytes.count() == 24 * head);
  CHECK(called(named, named.unit.backward.blocks, "qkv_split gradient sum").empty());
  int waiting = 0;  // gradients of all three stand as they are joined
  for (const Block& b : named.unit.backward.blocks) {
    const bool stands = b.begin < joined[0].begin && b.end >= joined[0].begin;
    waiting += stands && (b.bytes.count() == 16 * head || b.bytes.count() == 4 * head) ? 1 : 0;
  }
  CHECK(waiting >= 3);
}

// act(gate(x)) * up(x): without autograd the gate is given up before the other half is made.
TEST_CASE("A gate ahead of the other half leaves it room") {
  for (const bool first : {true, false}) {
    const Named named = memory_of(eager_llama(first));
    const std::vector<Block> halves =
        called(named, named.unit.unkept.blocks, "activation input");  // gate, activated, up
    REQUIRE(halves.size() == 3);
    const auto by_begin = [](const Block& a, const Block& b) { return a.begin < b.begin; };
    const Block gate = *std::min_element(halves.begin(), halves.end(), by_begin);
    const auto ahead = std::count_if(halves.begin(), halves.end(),
                                     [&](const Block& b) { return b.begin <= gate.end; });
    CHECK(ahead == (first ? 2 : 3));
  }
}

// What one unit makes last is what the next one reads: one tensor, marked on both sides.
TEST_CASE("A unit marks what it takes from the unit ahead and hands to the next") {
  for (const bool first : {true, false}) {
    const Eager e = eager_llama(first);
    const UnitMemory unit = memory_of(e).unit;
    for (const auto& [list, index] : {std::pair{&unit.saved, unit.saved.taken},
                                      {&unit.forward, unit.forward.handed},
                                      {&unit.unkept, unit.unkept.handed},
                                      {&unit.backward, unit.backward.taken},
                                      {&unit.backward, unit.backward.handed},
                                      {&unit.input, unit.input.taken}}) {
      REQUIRE(index < list->blocks.size());
      CHECK(list->blocks[index].bytes.count() == e.input);
    }
    // Gradients of a layer's branches are added to that of the stream.
    CHECK(unit.backward.taken == unit.backward.handed);
    CHECK(unit.backward.blocks[unit.backward.handed].end == kEnd);
    CHECK(unit.backward.blocks[unit.backward.taken].begin == 0);
  }
}

TEST_CASE("Logits of each loss: bytes a logit at the peak of the head") {
  // Fused: 2, overwritten by their gradient. Megatron-LM: 2 and an fp32 softmax of 4, both ways.
  // Eager: log-softmax and both gradients, 4 each.
  auto m = test::llama("llama", 4, 64, 1, 1, 64, 131072);
  for (const auto& [loss, per_logit] :
       {std::pair{job::LossKernel::fused, 2.0}, std::pair{job::LossKernel::vocab_parallel, 6.0},
        std::pair{job::LossKernel::eager, 12.0}}) {
    model::Style style;
    style.loss = loss;
    const auto [unit, labels] = memory_of(build_head(m, shard(1, 4096), style), 2 * 4096 * 64);
    const double peak =
        static_cast<double>(unit.saved.bytes + std::max(unit.forward.bytes, unit.backward.bytes));
    CHECK(peak / (4096.0 * 131072) == Approx(per_logit).epsilon(0.01));
  }
}
