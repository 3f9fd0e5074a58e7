// Saved bytes compared with measurements: differences between runs with and without kept
// activations, so that everything else cancels.
#include <algorithm>
#include <functional>
#include <map>

#include "catch.hpp"
#include "models.h"
#include "stepcast/model/operators.h"

using namespace stepcast;

namespace {

double saved(const model::OperatorGraph& g) {
  std::map<std::uint32_t, std::int64_t> storages;
  for (const auto& op : g.operators) {
    for (const auto& s : op.saved) {
      storages[s.storage] = s.bytes.count();
    }
  }
  double sum = 0;
  for (const auto& [storage, bytes] : storages) {
    sum += static_cast<double>(bytes);
  }
  return sum;
}

constexpr double gib = 1024.0 * 1024.0 * 1024.0;

}  // namespace

TEST_CASE("Qwen3-14B under torchtitan keeps what full recomputation saves") {
  // torchtitan, 8 B200, sequence 4096, micro-batch 4: reserved 173.9 GiB eager, 153.7 GiB
  // compiled, 47.0 GiB with full recomputation, which keeps each layer's input (pytorch/torchtitan
  // outputs/autoresearch, may19-qwen3-14b).
  auto m = test::llama("qwen3-14b", 40, 5120, 40, 8, 17408, 151936);
  m.qk_norm = true;
  model::Shard shard;
  shard.sequences = 4;
  shard.sequence_length = 4096;
  model::Style style;  // nn.RMSNorm is one kernel; SwiGLU and rotary embedding are not fused
  style.fused_bias_activation = style.fused_rotary = style.fused_bias_dropout_add =
      style.fused_qkv = false;
  const double input = 2.0 * 4 * 4096 * 5120;
  const auto layers = [&](bool compiled) {
    style.compiled = compiled;
    return 40 * (saved(model::build_layer(m, model::LayerKind::dense, shard, style)) - input) / gib;
  };
  CHECK(layers(false) == Approx(173.9 - 47.0).epsilon(0.02));
  CHECK(layers(true) == Approx(153.7 - 47.0).epsilon(0.02));
}

TEST_CASE("A 7B GPT under Megatron keeps what its peak shows above its steady state") {
  // Megatron-LM functional test gpt3_7b_tp4_pp1_memory_speed: peak minus steady allocated bytes are
  // 37,554,012,160 on GB200 and A100, and 36,480,272,288 on H100; tensor 4, micro-batch 2 of 8192,
  // 8 query groups, default dropout of 0.1.
  auto m = test::gpt("gpt3-7b", 32, 4096, 32, model::padded_vocab(131073, 128, 4), 8192);
  m.kv_heads = 8;
  m.dropout = 0.1;
  m.tied_embeddings = false;
  model::Shard shard;
  shard.sequences = 2;
  shard.sequence_length = 8192;
  shard.tensor = 4;
  const model::Style style;
  const auto head = model::build_head(m, shard, style);
  double bytes = saved(model::build_embedding(m, shard, style)) + saved(head) +
                 32 * saved(model::build_layer(m, model::LayerKind::dense, shard, style));
  // The 16-bit logits are live together with their fp32 softmax.
  bytes += static_cast<double>(head.operators[1].forward_output.count());
  CHECK(bytes == Approx(37554012160.0).epsilon(0.04));
  CHECK(bytes == Approx(36480272288.0).epsilon(0.04));
}

namespace {

// Llama-3 8B as PyTorch's modules write it, one sequence of 8192 tokens.
double llama_layer_mib(const std::function<void(model::Style&)>& change) {
  const auto m = test::llama("llama-3-8b", 32, 4096, 32, 8, 14336, 128256);
  model::Shard shard;
  shard.sequences = 1;
  shard.sequence_length = 8192;
  model::Style style;
  style.fused_bias_activation = style.fused_rotary = style.fused_bias_dropout_add =
      style.fused_qkv = false;
  change(style);
  return saved(model::build_layer(m, model::LayerKind::dense, shard, style)) / (1024.0 * 1024.0);
}

}  // namespace

// Tensors that torch's allocator recorded of a layer, in MiB; the log-sum-exp is 1.
TEST_CASE("A layer of Llama-3 8B keeps what torch records of it") {
  const double plain = 2 * 224 + 224 + 224 + 2 * 64 + 2 * 64 + 64 + 2 * 16 + 64 + 1;
  CHECK(llama_layer_mib([](model::Style&) {}) == plain);
  SECTION("under autocast: weights, five copies of the stream, the stream in fp32") {
    const double weights = 3 * 112 + 2 * 32 + 2 * 8;
    CHECK(llama_layer_mib([](model::Style& s) { s.autocast = true; }) ==
          plain + weights + (5 - 2) * 64 + 2 * (128 - 64));
  }
  SECTION("torch 2.7's norm: its input and what it scales in fp32") {
    CHECK(llama_layer_mib([](model::Style& s) {
            s.fused_norm = false;
            s.wide_norm = true;
          }) == plain + 2 * (128 + 128 - 64));
  }
  SECTION("keys and values of every query head") {
    CHECK(llama_layer_mib([](model::Style& s) { s.repeats_kv = true; }) == plain + 2 * (64 - 16));
  }
}

namespace {

// A layer of a GPT as transformers' modules write it, one sequence of 1024 tokens.
double gpt_layer(job::Activation activation, const std::function<void(model::Style&)>& change) {
  job::Model m = test::gpt("gpt", 1, 1024, 16, 50304, 1024);
  m.activation = activation;
  model::Shard shard;
  shard.sequences = 1;
  shard.sequence_length = 1024;
  model::Style style;
  style.fused_bias_activation = style.fused_rotary = style.fused_bias_dropout_add = false;
  change(style);
  return saved(model::build_layer(m, model::LayerKind::dense, shard, style));
}

}  // namespace

// As the allocator recorded them of OPT, GPT-2 and Phi (tests/oracle).
TEST_CASE("An MLP keeps what the kernels of its activation read") {
  using job::Activation;
  constexpr double one = 2.0 * 1024 * 4096, stream = 2.0 * 1024 * 1024;
  const auto plain = [](model::Style&) {};
  const auto composed = [](model::Style& s) { s.composed_gelu = true; };
  const double gelu = gpt_layer(Activation::gelu, plain);
  CHECK(gpt_layer(Activation::relu, plain) == gelu - one);  // its result, which the product keeps
  CHECK(gpt_layer(Activation::gelu_new, plain) == gelu);
  CHECK(gpt_layer(Activation::gelu, composed) == gelu);
  CHECK(gpt_layer(Activation::gelu_new, composed) == gelu + 3 * one);
  SECTION("a fused kernel composes nothing") {
    const auto fused = [](model::Style& s) { s.composed_gelu = s.fused_bias_activation = true; };
    CHECK(gpt_layer(Activation::gelu_new, fused) == gpt_layer(Activation::gelu, fused));
  }
  SECTION("under autocast all but 0.5 x is fp32, and the next product casts it") {
    const auto autocast = [](model::Style& s) { s.composed_gelu = s.autocast = true; };
    CHECK(gpt_layer(Activation::gelu_new, autocast) ==
          gpt_layer(Activation::gelu, autocast) + 6 * one);
  }
  SECTION("autocast over units keeps what layer norms read in fp32") {
    const auto units = [](model::Style& s) { s.composed_gelu = s.autocasts_units = true; };
    CHECK(gpt_layer(Activation::gelu, units) == gelu + 2 * stream);
    CHECK(gpt_layer(Activation::gelu_new, units) == gelu + 2 * stream + 6 * one);
  }
}

TEST_CASE("Norms of queries and keys in Python keep wide copies in place of what is projected") {
  job::Model m = test::llama3_8b();
  model::Shard shard;
  shard.sequences = 1;
  shard.sequence_length = 1024;
  model::Style style;
  style.fused_norm = style.fused_qkv = style.fused_bias_activation = style.fused_rotary = false;
  const auto layer = [&] {
    return saved(model::build_layer(m, model::LayerKind::dense, shard, style));
  };
  const double without = layer();
  m.qk_norm = true;
  const double queries_and_keys = 1024.0 * (32 + 8) * 128;
  CHECK(layer() == without + (4 + 2) * queries_and_keys);  // the cast, and what the weight scales
}

TEST_CASE("Whole latents are as many times larger as there are tensor ranks") {
  const job::Model m = test::deepseek_v2();
  model::Shard shard;
  shard.sequences = 1;
  shard.sequence_length = 1024;
  shard.tensor = 4;
  shard.sequence_parallel = true;
  model::Style style;
  const auto layer = [&] {
    return saved(model::build_layer(m, model::LayerKind::dense, shard, style));
  };
  const double parts = layer();
  style.whole_latents = true;
  // Both latents before and behind their norms.
  CHECK(layer() == parts + 2.0 * (1024 - 1024 / 4) * 2 * (1536 + 512));
}

TEST_CASE("8-bit inputs of activations and of attention are half as large") {
  const auto m = test::llama3_70b();
  model::Shard shard;
  shard.sequence_length = 8192;
  model::Style style;
  style.attention = job::AttentionKernel::cudnn;
  const auto layer = [&] {
    return saved(model::build_layer(m, model::LayerKind::dense, shard, style));
  };
  const double wide = layer();
  style.fp8_activation_input = true;
  const double input = 2.0 * 8192 * 2 * static_cast<double>(m.ffn);  // gate and up, in 16 bits
  CHECK(wide - layer() == Approx(input / 2));
  style.fp8_activation_input = false;
  // The result of attention, which attention and the product behind it keep together.
  style.fp12_attention_output = true;
  const double result = 2.0 * 8192 * m.heads * m.head_dim;
  CHECK(wide - layer() == Approx(result / 4));
  style.fp12_attention_output = false;
  style.fp8_attention = true;
  // The output projection keeps its input, the result in 16 bits; the kernel a copy of half its
  // size beside it.
  const double qkv = 2.0 * 8192 * (m.heads + 2 * m.kv_heads) * m.head_dim;
  const double output = 2.0 * 8192 * static_cast<double>(m.hidden);
  CHECK(wide - layer() == Approx(qkv / 2 - output / 2));
}
