// The states of each optimizer, compared with closed forms over the arrays of a small model.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "catch.hpp"
#include "support/lowered.h"

using namespace stepcast;

namespace {

// Four layers of llama's shape: hidden h, ffn f, vocabulary v, no biases.
constexpr double h = 1024, f = 2816, v = 32000, layers = 4;
constexpr double kTable = v * h;                     // embedding, and the head
constexpr double kMatrices = 4 * h * h + 3 * f * h;  // of a layer
constexpr double kVectors = layers * 2 * h + h;      // norms
constexpr double kAll = 2 * kTable + layers * kMatrices + kVectors;

std::string text_of(const std::string& system, const std::string& sharding,
                    const std::string& memory, const std::string& workload = "") {
  return fmt::format(
      "model: {{layers: 4, hidden: 1024, heads: 16, kv_heads: 16, head_dim: 64, ffn: 2816, vocab: "
      "32000, gated_mlp: true, norm: rms, positions: rotary, tied_embeddings: false}}\ncluster: "
      "{{use: dgx-h100, nodes: 1}}\nsystem: {}\nworkload: {{sequence_length: 1024, global_batch: "
      "8{}}}\nparallelism: {{sharding: {}}}\nmemory: {{{}}}\n",
      system, workload, sharding, memory);
}

double held(const support::Lowered& l, const std::string& label) {
  double bytes = 0;
  const program::Program& p = l.program();
  for (const program::Buffer& b : p.buffers) {
    if (b.persistent && p.labels[b.label] == label) {
      bytes += static_cast<double>(b.bytes.count());
    }
  }
  return bytes;
}

// Bytes that the step allocates and releases.
double made(const support::Lowered& l, const std::string& label) {
  double bytes = 0;
  const program::Program& p = l.program();
  for (const program::Buffer& b : p.buffers) {
    if (!b.persistent && p.labels[b.label] == label) {
      bytes += static_cast<double>(b.bytes.count());
    }
  }
  return bytes;
}

// Time of the optimizer's kernels.
double updates(const support::Lowered& l) {
  double seconds = 0;
  const program::Program& p = l.program();
  for (const program::Task& t : p.tasks) {
    if (t.category == program::Category::optimizer && p.labels[t.label] == "optimizer") {
      seconds += static_cast<double>(t.duration.count());
    }
  }
  return seconds;
}

// Buffers are whole blocks of 512 bytes, so an array of each of two moments may take one more.
double rounding(const support::Lowered& l) {
  return 512.0 * static_cast<double>(l.program().blocks.size() + 1);
}

}  // namespace

TEST_CASE("Moments follow the shapes of arrays", "[laws]") {
  const double dense = layers * kMatrices;
  struct Case {
    const char* memory;
    double bytes;
    const char* why;
  };
  const Case cases[] = {
      {"optimizer: adamw", 8 * kAll, "two moments in fp32"},
      {"optimizer: adamw, dtypes: {moments: bf16}", 4 * kAll, "two in bf16"},
      {"optimizer: adamw_bf16", 4 * kAll, "two in bf16"},
      {"optimizer: sgd", 0, "none without momentum"},
      {"optimizer: sgd, momentum: 0.9", 4 * kAll, "one in fp32"},
      {"optimizer: lion", 4 * kAll, "one in fp32"},
      {"optimizer: muon", 4 * dense + 8 * (2 * kTable + kVectors),
       "one of hidden matrices, AdamW's two of tables and norms"},
      // Norms of 1,024 elements stay in fp32; each block of 256 elements has a scale in fp32.
      {"optimizer: adamw_8bit", 2 * (1 + 4.0 / 256) * (kAll - kVectors) + 8 * kVectors,
       "two in a byte, with scales"},
      {"optimizer: adamw_8bit_paged", 8 * kVectors,
       "of small arrays alone: others are paged, outside the allocator"},
      // Rows and columns in fp32: fused qkv 3h x h, out h x h, fc1 2f x h, fc2 h x f.
      {"optimizer: adafactor",
       4 * (2 * (v + h) + layers * ((3 * h + h) + (h + h) + (2 * f + h) + (h + f)) + kVectors),
       "rows and columns"},
  };
  for (const Case& c : cases) {
    INFO(c.memory << ": " << c.why);
    const support::Lowered l(
        text_of("{use: megatron-lm, precision_aware_optimizer: false}", "none", c.memory));
    CHECK(std::abs(held(l, "optimizer states") - c.bytes) <= rounding(l));
    CHECK(std::abs(held(l, "master weights") - 4 * kAll) <= rounding(l));
  }
}

TEST_CASE("Sharded states are the ranks' share", "[laws]") {
  // Megatron-LM's distributed optimizer pads its buffers: each array to 64 elements, and the end to
  // 128 x ranks.
  for (const char* optimizer : {"adamw", "adamw_8bit", "sgd, momentum: 0.9", "lion"}) {
    INFO(optimizer);
    const std::string memory = fmt::format("optimizer: {}", optimizer);
    const support::Lowered whole(text_of("megatron-lm", "none", memory));
    const support::Lowered cut(text_of("megatron-lm", "zero1", memory));
    CHECK(std::abs(8 * held(cut, "optimizer states") - held(whole, "optimizer states")) <=
          0.02 * held(whole, "optimizer states"));
    CHECK(std::abs(8 * held(cut, "master weights") - held(whole, "master weights")) <=
          8 * rounding(whole));
    CHECK(held(cut, "gradients") >= held(whole, "gradients"));
  }
  // FSDP2 shards every array by rows.
  const support::Lowered fsdp(text_of("pytorch-fsdp2", "zero3", "optimizer: adamw"));
  CHECK(std::abs(held(fsdp, "optimizer states") - kAll) <= rounding(fsdp));
  // DeepSpeed's flat partition has no rows, so Adafactor keeps the full second moment.
  const support::Lowered flat(text_of("deepspeed", "zero2", "optimizer: adafactor"));
  CHECK(std::abs(held(flat, "optimizer states") - 4 * kAll / 8) <= rounding(flat));
  // Owners of Muon under Megatron-LM: the largest array, a table, is whole on one rank.
  const support::Lowered owner(text_of("megatron-lm", "zero1", "optimizer: muon"));
  CHECK(held(owner, "master weights") >= 4 * kTable);
  CHECK(held(owner, "master weights") <= 4 * (kAll / 8 + 2 * kTable));
}

// The results of Megatron-LM's tests on H100 and GB200
// (gpt3_weekly_mcore_tp4_cp2_current_scaling_native_fp8) differ by 9,438,208 bytes: one byte for
// each of the 9,437,184 weights of their products.
TEST_CASE("Transformer Engine keeps weights in the products' format", "[laws]") {
  const double dense = layers * kMatrices;
  struct Case {
    const char* precision;
    const char* cluster;
    double bytes;  // bytes per weight of the layers' products
    const char* why;
  };
  const Case cases[] = {
      {"bf16", "dgx-h100", 0, "no copies"},
      {"fp8", "dgx-h100", 2, "rows and columns before Blackwell"},
      {"fp8", "dgx-b200", 1, "Blackwell's products read either way"},
      {"mxfp8", "dgx-b200", 2 * (1 + 1.0 / 32), "scales differ by direction"},
      {"nvfp4", "dgx-b200", 2 * (0.5 + 1.0 / 16), "scales differ by direction"},
  };
  for (const Case& c : cases) {
    INFO(c.precision << " on " << c.cluster << ": " << c.why);
    std::string text = text_of("{use: megatron-lm, transformer_engine: true}", "none",
                               "optimizer: adamw", fmt::format(", precision: {}", c.precision));
    text.replace(text.find("dgx-h100"), 8, c.cluster);
    const support::Lowered l(text);
    CHECK(std::abs(held(l, "weights in the products' format") - c.bytes * dense) <= rounding(l));
  }
}

// Narrow gradients become fp32 main gradients, 4 bytes each, unless the optimizer reads them as
// they are: where that is stated, and where its moments are narrow (megatron-core 0.19.2,
// optimizer/distrib_optimizer.py:2774), but not under 8-bit products.
TEST_CASE("A precision-aware optimizer copies no gradients, and keeps half of fp32 weights",
          "[laws]") {
  const auto lowered = [](const char* system, const char* moments, const char* precision) {
    return support::Lowered(
        text_of(fmt::format("{{use: megatron-lm, transformer_engine: true, {}}}", system), "none",
                fmt::format("optimizer: adamw, dtypes: {{gradients: bf16, moments: {}}}", moments),
                fmt::format(", precision: {}", precision)));
  };
  const auto copies = [&](const char* system, const char* moments, const char* precision) {
    return made(lowered(system, moments, precision), "fp32 gradients");
  };
  const auto weights = [&](const char* system, const char* moments, const char* precision) {
    return held(lowered(system, moments, precision), "master weights");
  };
  // The 16 bits that bf16 parameters lack (store_param_remainders).
  CHECK(weights("precision_aware_optimizer: null", "fp32", "bf16") ==
        Approx(4 * kAll).epsilon(1e-4));
  CHECK(weights("precision_aware_optimizer: true", "fp32", "bf16") ==
        Approx(2 * kAll).epsilon(1e-4));
  CHECK(weights("precision_aware_optimizer: null", "bf16", "bf16") ==
        Approx(2 * kAll).epsilon(1e-4));
  CHECK(weights("precision_aware_optimizer: true", "bf16", "fp8") ==
        Approx(4 * kAll).epsilon(1e-4));
  // Two moments are read and written, the gradient read, and fp32 weights read and written: in two
  // halves, of which one is the parameters; whole, with the parameters written beside them.
  CHECK(updates(lowered("precision_aware_optimizer: true", "fp32", "bf16")) /
            updates(lowered("precision_aware_optimizer: false", "fp32", "bf16")) ==
        Approx((16.0 + 2 + 8) / (16 + 4 + 10)).epsilon(0.03));
  // Megatron-FSDP's optimizer steps fp32 weights, which are padded: the four layers and what is
  // outside of them each to a multiple, for eight ranks, of both f and h.
  const support::Lowered units(text_of("{use: megatron-fsdp, precision_aware_optimizer: true}",
                                       "zero3", "dtypes: {gradients: bf16}"));
  const double rows = 11 * h;  // their least common multiple
  CHECK(held(units, "master weights") >= 4 * kAll / 8);
  CHECK(held(units, "master weights") <= 4 * (kAll + 5 * 8 * rows) / 8 + rounding(units));
  const double all = copies("precision_aware_optimizer: null", "fp32", "bf16");
  CHECK(all > 0);
  CHECK(copies("precision_aware_optimizer: true", "fp32", "bf16") == 0);
  CHECK(copies("precision_aware_optimizer: null", "bf16", "bf16") == 0);
  CHECK(copies("precision_aware_optimizer: false", "bf16", "bf16") == all);
  CHECK(copies("precision_aware_optimizer: true", "bf16", "fp8") == all);
}

// DeepSpeed: 8 bytes for each element of the widest gradient for its norm, up to the size of the
// partition, and all its gradients in one more tensor of 2 bytes each, in addition to 4 bytes of
// the fp32 copy. What is a part of one array is flat as it is.
TEST_CASE("ZeRO-1 of DeepSpeed flattens its partition", "[laws]") {
  const support::Lowered l(text_of("deepspeed", "zero1", "optimizer: adamw"));
  CHECK(made(l, "gradient in fp64") == Approx(8 * std::min(kTable, kAll / 8)).epsilon(0.001));
  CHECK(made(l, "flat gradients") ==
        (kTable < kAll / 8 ? Approx(2 * kAll / 8).epsilon(0.001) : Approx(0)));
  CHECK(made(l, "fp32 gradients") == Approx(4 * kAll / 8).epsilon(0.001));
  const support::Lowered none(text_of("deepspeed", "none", "optimizer: adamw"));
  CHECK(made(none, "gradient in fp64") == 0);
  CHECK(made(none, "flat gradients") == 0);
}

// BF16_Optimizer: fp32 gradients of the step, those of one micro-batch between stages, and at the
// step's end all of them once more as they travel. Below 5e8 elements they are copied into one
// tensor first.
TEST_CASE("DeepSpeed's gradients in fp32 stand beside those of a micro-batch", "[laws]") {
  const std::string wide = "optimizer: adamw, dtypes: {gradients: fp32, reduce: fp32}";
  const support::Lowered alone(text_of("deepspeed", "zero1", wide));
  CHECK(held(alone, "gradients") == Approx(4 * kAll).epsilon(0.001));
  CHECK(held(alone, "gradients of a micro-batch") == 0);
  CHECK(held(alone, "gradient buckets") == 0);
  CHECK(made(alone, "flat copy of a bucket") == Approx(4 * kAll).epsilon(0.001));
  CHECK(made(alone, "gradients as they travel") == 0);
  const support::Lowered narrow(
      text_of("deepspeed", "zero1", "optimizer: adamw, dtypes: {gradients: fp32, reduce: bf16}"));
  CHECK(made(narrow, "gradients as they travel") == Approx(2 * kAll).epsilon(0.001));
  CHECK(made(alone, "flat gradients") == 0);
  const support::Lowered stages(text_of("deepspeed", "zero1, pipeline: 2", wide));
  CHECK(held(stages, "gradients of a micro-batch") ==
        Approx(held(stages, "gradients") / 2).epsilon(0.001));
  CHECK(made(stages, "fp32 copy of a gradient") > 0);
  CHECK(made(alone, "fp32 copy of a gradient") == 0);
  CHECK(held(support::Lowered(text_of("deepspeed", "zero1, pipeline: 2", "optimizer: adamw")),
             "gradients of a micro-batch") == 0);
}

// torch._multi_tensor_adamw: eight operations over the whole list; the root of the second moment is
// a separate list.
TEST_CASE("foreach AdamW makes a list of roots and reads what it steps again and again", "[laws]") {
  const auto lowered = [](const char* foreach) {
    return support::Lowered(
        text_of(fmt::format("{{use: pytorch-fsdp2, foreach_optimizer: {}}}", foreach), "zero3",
                "optimizer: adamw"));
  };
  const support::Lowered list = lowered("true"), fused = lowered("false");
  CHECK(std::abs(made(list, "optimizer temporaries") - 4 * kAll / 8) <= rounding(list));
  CHECK(made(fused, "optimizer temporaries") == 0);
  // In fp32, 4 + 14 + 2 words per element instead of 4 read and 3 written.
  REQUIRE(updates(fused) > 0);
  CHECK(updates(list) / updates(fused) == Approx(20.0 / 7).epsilon(0.15));
}

// torch 2.0.1, optim/adamw.py:564 to 566: the roots stand beside the denominators, which 2.1 on
// makes of them in place.
TEST_CASE("foreach AdamW of torch 2.0 makes two lists", "[laws]") {
  const auto temporaries = [](const char* denominator) {
    const support::Lowered lowered(
        text_of(fmt::format("{{use: pytorch-fsdp2, foreach_optimizer: true, foreach_denominator: "
                            "{}}}",
                            denominator),
                "zero3", "optimizer: adamw"));
    return made(lowered, "optimizer temporaries");
  };
  CHECK(temporaries("true") == Approx(2 * temporaries("false")));
}

namespace {

int tensors(const support::Lowered& l, const std::string& label) {
  int count = 0;
  const program::Program& p = l.program();
  for (const program::Buffer& b : p.buffers) {
    if (p.labels[b.label] == label) {
      count += b.blocks == 0 ? 1 : static_cast<int>(b.blocks);
    }
  }
  return count;
}

}  // namespace

// nanotron 0.4: optim/zero.py:165 and optim/gradient_accumulator.py:95.
TEST_CASE("A rank steps a slice of each array, whose fp32 weights are one tensor", "[laws]") {
  const support::Lowered ranges(text_of("nanotron", "zero1", "optimizer: adamw"));
  const double moments = held(ranges, "optimizer states");
  CHECK(std::abs(moments - 8 * kAll / 8) <= rounding(ranges));
  CHECK(tensors(ranges, "optimizer states") == 2 * tensors(ranges, "parameters"));
  CHECK(tensors(ranges, "master weights") == 1);
  CHECK(std::abs(held(ranges, "master weights") - 4 * kAll / 8) <= rounding(ranges));
}

// Two matrices of an expert in each of four layers, where experts run one by one; else all experts'
// in two.
TEST_CASE("Experts that run one by one have weights of their own", "[laws]") {
  const auto lowered = [](const char* grouped) {
    return support::Lowered(fmt::format(
        "model: {{layers: 4, hidden: 1024, heads: 16, kv_heads: 16, head_dim: 64, ffn: 2816, "
        "vocab: 32000, gated_mlp: true, norm: rms, positions: rotary, tied_embeddings: false, moe: "
        "{{experts: 16, topk: 2, ffn: 1024}}}}\ncluster: {{use: dgx-h100, nodes: 1}}\nsystem: "
        "{{use: megatron-lm, transformer_engine: false, foreach_optimizer: true}}\nworkload: "
        "{{sequence_length: 1024, global_batch: 8}}\nparallelism: {{expert: 8, sharding: "
        "none}}\nmoe: {{grouped: {}}}\n",
        grouped));
  };
  const support::Lowered one_by_one = lowered("false"), together = lowered("true");
  constexpr int kHere = 16 / 8;  // experts of a rank
  CHECK(tensors(one_by_one, "master weights") - tensors(together, "master weights") ==
        4 * 2 * (kHere - 1));
  CHECK(held(one_by_one, "master weights") ==
        Approx(held(together, "master weights")).epsilon(1e-4));
  // An optimizer of their own steps them behind the other: two lists, which add up to all roots.
  CHECK(made(one_by_one, "optimizer temporaries") ==
        Approx(held(one_by_one, "master weights")).epsilon(1e-4));
}

TEST_CASE("Tensors of a buffer add up to it", "[laws]") {
  for (const char* system : {"megatron-lm", "pytorch-fsdp2", "pytorch-ddp", "deepspeed"}) {
    const support::Lowered l(text_of(system, "none", "optimizer: adamw"));
    const program::Program& p = l.program();
    for (const program::Buffer& b : p.buffers) {
      if (!b.persistent || b.blocks == 0) {
        continue;
      }
      std::int64_t bytes = 0;
      for (std::uint32_t i = 0; i < b.blocks; ++i) {
        bytes += (p.blocks[b.first_block + i].bytes.count() + 511) / 512 * 512;
      }
      INFO(system << " " << p.labels[b.label]);
      CHECK(bytes == b.bytes.count());
    }
  }
}
