// The collectives of each training system in one step of a small model: their order and bytes,
// derived from the arrays of the model and the system's own rules. configs/systems has the rules
// and their sources.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "../support/step_traffic.h"
#include "catch.hpp"

using namespace stepcast;
using namespace stepcast::testing;

namespace {

// A Llama: no biases, an untied head.
constexpr std::int64_t kHidden = 1024, kFfn = 2816, kVocab = 1024, kSequence = 256;
constexpr int kLayers = 4;
constexpr int kMicroBatches = 2;

using Arrays = std::vector<std::int64_t>;

// In the order of the forward pass.
Arrays layer_arrays(bool fused) {
  constexpr std::int64_t h = kHidden, f = kFfn;
  if (fused) {  // Megatron-LM: one product for queries, keys and values, one for gate and up
    return {h, 3 * h * h, h * h, h, 2 * f * h, f * h};
  }
  return {h, h * h, h * h, h * h, h * h, h, f * h, f * h, f * h};
}
std::int64_t sum(const Arrays& a) { return std::accumulate(a.begin(), a.end(), std::int64_t{0}); }
std::int64_t layer() { return sum(layer_arrays(true)); }
constexpr std::int64_t embedding() { return kVocab * kHidden; }
constexpr std::int64_t head() { return kHidden + kVocab * kHidden; }
std::int64_t total(int layers = kLayers) { return embedding() + layers * layer() + head(); }

// All arrays of the model in reverse, the order in which gradients are computed.
Arrays backward_arrays(bool fused, int layers = kLayers) {
  Arrays forward = {embedding()};
  for (int i = 0; i < layers; ++i) {
    const Arrays one = layer_arrays(fused);
    forward.insert(forward.end(), one.begin(), one.end());
  }
  forward.push_back(kHidden);
  forward.push_back(kVocab * kHidden);
  return {forward.rbegin(), forward.rend()};
}

// A bucket is sent with the array that fills it (torch: compute_bucket_assignment_by_size;
// Megatron-LM: param_and_grad_buffer.py).
Arrays filled(const Arrays& arrays, std::int64_t first, std::int64_t limit) {
  Arrays out;
  std::int64_t now = 0;
  for (const std::int64_t a : arrays) {
    now += a;
    if (now >= (out.empty() ? first : limit)) {
      out.push_back(now);
      now = 0;
    }
  }
  if (now > 0) {
    out.push_back(now);
  }
  return out;
}

// A bucket is sent before an array would overfill it (DeepSpeed: stage_1_and_2.py; Horovod:
// controller.cc, FuseResponses).
Arrays kept_below(const Arrays& arrays, std::int64_t limit) {
  Arrays out;
  std::int64_t now = 0;
  for (const std::int64_t a : arrays) {
    if (now > 0 && now + a > limit) {
      out.push_back(now);
      now = 0;
    }
    now += a;
  }
  out.push_back(now);
  return out;
}

Arrays times(Arrays a, std::int64_t bytes) {
  for (auto& x : a) {
    x *= bytes;
  }
  return a;
}

Arrays repeated(const Arrays& a, int n) {
  Arrays out;
  for (int i = 0; i < n; ++i) {
    out.insert(out.end(), a.begin(), a.end());
  }
  return out;
}

std::string job_text(const std::string& system, int layers = kLayers) {
  return fmt::format(
      "model: {{layers: {}, hidden: {}, heads: 16, kv_heads: 16, head_dim: 64, ffn: {}, vocab: {}, "
      "gated_mlp: true, norm: "
      "rms, positions: rotary}}\ncluster: {{use: dgx-a100, nodes: 1}}\nsystem: {}\nworkload: "
      "{{sequence_length: {}, "
      "global_batch: {}}}\n",
      layers, kHidden, kFfn, kVocab, system, kSequence, 8 * kMicroBatches);
}

std::vector<Transmission> step_of(const std::string& system,
                                  const std::vector<std::string>& overrides = {},
                                  program::RankId rank = 0, int layers = kLayers) {
  return transmissions(lower_job(job_text(system, layers), overrides).world, rank);
}

// Bytes of the collectives of one kind in order of issue; `micro_batch` -2: of all micro-batches.
Arrays bytes_of(const std::vector<Transmission>& all, const std::string& what,
                const std::string& op, int micro_batch = -2) {
  Arrays out;
  for (const Transmission& t : all) {
    if (t.what == what && t.op == op && (micro_batch == -2 || t.micro_batch == micro_batch)) {
      out.push_back(t.bytes);
    }
  }
  return out;
}

bool none_beside(const std::vector<Transmission>& all) {
  return std::none_of(all.begin(), all.end(), [](const Transmission& t) { return t.beside; });
}
bool all_beside(const std::vector<Transmission>& all) {
  return std::all_of(all.begin(), all.end(), [](const Transmission& t) { return t.beside; });
}

constexpr std::int64_t kMiB = 1 << 20;

// Units of a fully sharded model in forward order: the root, which holds embedding and head, and
// the layers.
Arrays units() {
  Arrays out = {embedding() + head()};
  out.insert(out.end(), kLayers, layer());
  return out;
}
Arrays backwards(Arrays a) { return {a.rbegin(), a.rend()}; }

// What FSDP gathers in a micro-batch: every unit in the forward pass, and the layers in the
// backward pass; the root is not resharded.
Arrays fsdp_gathers() {
  Arrays out = units();
  out.insert(out.end(), kLayers, layer());
  return out;
}

}  // namespace

// ---------------------------------------------------------------- one strategy
TEST_CASE(
    "PyTorch DDP: 1 MiB, then buckets of 25 MiB of fp32, all-reduced behind the last micro-batch",
    "[laws][systems]") {
  auto step = step_of("pytorch-ddp");
  // And a broadcast of the rotary frequencies, which are buffers, as the first pass begins.
  CHECK(std::erase_if(step, [](const Transmission& t) { return t.op == "broadcast"; }) == 1);
  const Arrays expected = times(filled(backward_arrays(false), kMiB / 4, 25 * kMiB / 4), 4);
  REQUIRE(expected.size() > 4);
  CHECK(bytes_of(step, "gradients", "all_reduce", kMicroBatches - 1) == expected);
  CHECK(step.size() == expected.size());  // and nothing else
  CHECK(all_beside(step));
}

TEST_CASE("Horovod: fused up to 128 MiB of fp32, or what a cycle finds", "[laws][systems]") {
  // A cycle longer than the step has no effect, so only the fusion threshold counts.
  const auto fused = step_of("horovod", {"system.cycle_time=1 s"});
  CHECK(bytes_of(fused, "gradients", "all_reduce") ==
        times(kept_below(backward_arrays(false), 128 * kMiB / 4), 4));
  const auto step = step_of("horovod");
  const Arrays cycles = bytes_of(step, "gradients", "all_reduce");
  CHECK(sum(cycles) == 4 * total());
  CHECK(cycles.size() >= bytes_of(fused, "gradients", "all_reduce").size());
  for (const std::int64_t bytes : cycles) {
    CHECK(bytes <= 128 * kMiB);
  }
}

TEST_CASE("Horovod hierarchical: NCCL in the node, hosts between nodes", "[laws][systems]") {
  const auto step = step_of("horovod", {"cluster.nodes=2", "workload.global_batch=32",
                                        "system.hierarchical_all_reduce=true"});
  const std::int64_t all = 4 * total();
  CHECK(sum(bytes_of(step, "gradients", "reduce_scatter")) == all);
  CHECK(sum(bytes_of(step, "gradients", "all_gather")) == all);
  // Each of the 8 local ranks sends its eighth between the nodes.
  CHECK(sum(bytes_of(step, "gradients", "all_reduce")) == all / 8);
}

TEST_CASE(
    "PyTorch FSDP2: bf16 gathers of each unit, layers again in backward; fp32 reduce-scatters, "
    "every micro-batch",
    "[laws][systems]") {
  const auto step = step_of("pytorch-fsdp2");
  CHECK(bytes_of(step, "parameters", "all_gather", 0) == times(fsdp_gathers(), 2));
  CHECK(bytes_of(step, "gradients", "reduce_scatter", 0) == times(backwards(units()), 4));
  CHECK(bytes_of(step, "gradients", "reduce_scatter", kMicroBatches - 1) ==
        times(backwards(units()), 4));
  CHECK(bytes_of(step, "gradients", "all_reduce").empty());
  CHECK(all_beside(step));
  const auto kept = step_of("pytorch-fsdp2", {"parallelism.reshard_after_forward=false"});
  CHECK(bytes_of(kept, "parameters", "all_gather", 0) == times(units(), 2));
}

TEST_CASE("PyTorch FSDP1, Transformers with FSDP: reductions in bf16", "[laws][systems]") {
  for (const std::string system : {"pytorch-fsdp1", "transformers"}) {
    INFO(system);
    const auto step = step_of(system, {"parallelism.sharding=zero3"});
    CHECK(bytes_of(step, "parameters", "all_gather", 0) == times(fsdp_gathers(), 2));
    // Accelerate accumulates without synchronisation until the last micro-batch.
    CHECK(bytes_of(step, "gradients", "reduce_scatter", 0).empty() == (system == "transformers"));
    CHECK(bytes_of(step, "gradients", "reduce_scatter", kMicroBatches - 1) ==
          times(backwards(units()), 2));
  }
}

TEST_CASE("Composer: FSDP1 that reduces in fp32, with units of both ends", "[laws][systems]") {
  const auto step = step_of("composer");
  Arrays forward = {embedding()};
  forward.insert(forward.end(), kLayers, layer());
  forward.push_back(head());
  Arrays gathers = forward;
  const Arrays back = backwards(forward);
  gathers.insert(gathers.end(), back.begin(), back.end());
  CHECK(bytes_of(step, "parameters", "all_gather", 0) == times(gathers, 2));
  CHECK(bytes_of(step, "gradients", "reduce_scatter", 0) == times(back, 4));
}

TEST_CASE("MaxText: FSDP over XLA, gradients reduced as products give them", "[laws][systems]") {
  const auto step = step_of("maxtext");
  CHECK(sum(bytes_of(step, "parameters", "all_gather", 0)) >= 2 * total());
  CHECK(sum(bytes_of(step, "gradients", "reduce_scatter", 0)) == 2 * total());
}

TEST_CASE("MaxText on TPUs before Ironwood: the same collectives, reductions alone on the chip",
          "[laws][systems]") {
  const auto step = step_of("maxtext-v6e");
  const auto newer = step_of("maxtext");
  for (const char* what : {"parameters", "gradients"}) {
    const char* op = what == std::string("parameters") ? "all_gather" : "reduce_scatter";
    CHECK(bytes_of(step, what, op, 0) == bytes_of(newer, what, op, 0));
  }
  CHECK(all_beside(newer));
  for (const Transmission& t : step) {
    CHECK(t.beside == (t.what == "parameters"));
  }
}

TEST_CASE("HSDP: reduce-scatter in the shard, all-reduce of the shard across copies",
          "[laws][systems]") {
  const auto step =
      step_of("pytorch-fsdp2", {"parallelism.sharding=hsdp", "parallelism.shard_size=4"});
  CHECK(bytes_of(step, "gradients", "reduce_scatter", 0) == times(backwards(units()), 4));
  Arrays shards = times(backwards(units()), 4);
  for (auto& bytes : shards) {
    bytes /= 4;
  }
  CHECK(bytes_of(step, "gradients", "all_reduce", 0) == shards);
  for (const Transmission& t : step) {
    CHECK(t.ranks == (t.op == "all_reduce" ? 2 : 4));
  }
}

TEST_CASE("Transformers without FSDP is DDP; MindNLP has no small first bucket",
          "[laws][systems]") {
  const Arrays arrays = backward_arrays(false);
  // The gradients of weights in their checkpoint's 16 bits; before transformers 5 in fp32.
  CHECK(bytes_of(step_of("transformers"), "gradients", "all_reduce") ==
        times(filled(arrays, kMiB / 2, 25 * kMiB / 2), 2));
  CHECK(bytes_of(step_of("transformers-4"), "gradients", "all_reduce") ==
        times(filled(arrays, kMiB / 4, 25 * kMiB / 4), 4));
  CHECK(bytes_of(step_of("mindnlp"), "gradients", "all_reduce") ==
        times(filled(arrays, 25 * kMiB / 2, 25 * kMiB / 2), 2));
}

TEST_CASE("LightSeq: DDP of half-precision gradients", "[laws][systems]") {
  const auto step = step_of("lightseq", {"workload.precision=fp16"});
  CHECK(bytes_of(step, "gradients", "all_reduce") ==
        times(filled(backward_arrays(false), kMiB / 2, 25 * kMiB / 2), 2));
}

TEST_CASE("FlexFlow, Alpa, nnScaler: one gradient all-reduce after accumulation, beside nothing",
          "[laws][systems]") {
  struct Case {
    const char* system;
    std::int64_t width;
  };
  for (const Case& c : {Case{"flexflow", 4}, Case{"alpa", 2}, Case{"nnscaler", 2}}) {
    INFO(c.system);
    const auto step = step_of(c.system);
    CHECK(bytes_of(step, "gradients", "all_reduce") == Arrays{c.width * total()});
    CHECK(step.size() == 1);
    CHECK(none_beside(step));
  }
}

TEST_CASE("nnScaler's use_zero: all-reduce, then a gather of the parameters", "[laws][systems]") {
  const auto step = step_of("nnscaler", {"parallelism.sharding=zero1"});
  CHECK(bytes_of(step, "gradients", "all_reduce") == Arrays{2 * total()});
  CHECK(sum(bytes_of(step, "parameters", "all_gather")) == 2 * total());
  CHECK(none_beside(step));
}

// ---------------------------------------------------------------- ZeRO
TEST_CASE(
    "DeepSpeed: stage 1 reduces at the boundary, stage 2 each micro-batch, in buckets of 5e8 "
    "elements",
    "[laws][systems]") {
  const auto plain = step_of("deepspeed");
  CHECK(bytes_of(plain, "gradients", "all_reduce") == Arrays{2 * total()});
  CHECK(plain.size() == 1);
  // Not beside the last micro-batch's backward pass, but behind it.
  CHECK(bytes_of(plain, "gradients", "all_reduce", kMicroBatches - 1).empty());
  for (const char* stage : {"zero1", "zero2"}) {
    INFO(stage);
    const auto step = step_of("deepspeed", {std::string("parallelism.sharding=") + stage});
    const bool each = std::string(stage) == "zero2";
    // use_multi_rank_bucket_allreduce: one all-reduce of the whole bucket.
    CHECK(bytes_of(step, "gradients", "all_reduce") ==
          repeated({2 * total()}, each ? kMicroBatches : 1));
    CHECK(bytes_of(step, "parameters", "all_gather") == Arrays{2 * total()});
    CHECK(none_beside(step));  // overlap_comm is on for stage 3 only
  }
  const auto small =
      step_of("deepspeed", {"parallelism.sharding=zero2", "system.bucket_elements=20000000"});
  CHECK(bytes_of(small, "gradients", "all_reduce", 0) ==
        times(kept_below(backward_arrays(false), 20'000'000), 2));
}

TEST_CASE(
    "DeepSpeed stage 3: norms stay whole, a small model is gathered once in full buckets, "
    "gradients leave in buckets",
    "[laws][systems]") {
  const std::int64_t norms =
      (2 * kLayers + 1) * kHidden;  // each below stage3_param_persistence_threshold
  // All parameters are reused within stage3_max_reuse_distance.
  constexpr std::int64_t kBucket = 5'000'000;
  const auto step = step_of("deepspeed", {"parallelism.sharding=zero3",
                                          "system.prefetch_elements=" + std::to_string(kBucket)});
  Arrays gathered = bytes_of(step, "parameters", "all_gather", 0);
  CHECK(sum(gathered) == 2 * (total() - norms));
  // Parameters are added until the prefetch bucket is full.
  gathered.pop_back();
  CHECK(std::all_of(gathered.begin(), gathered.end(), [](auto b) { return b >= 2 * kBucket; }));
  CHECK(bytes_of(step, "gradients", "reduce_scatter", 0) == Arrays{2 * total()});
  // The parameters that the step updated.
  CHECK(bytes_of(step, "parameters", "all_gather", -1) ==
        Arrays(static_cast<std::size_t>(2 * kLayers + 1), 2 * kHidden));
  // Without reuse: forward and backward gather.
  const auto far = step_of("deepspeed", {"parallelism.sharding=zero3", "system.reuse_elements=0",
                                         "system.forward_prefetch=none"});
  CHECK(sum(bytes_of(far, "parameters", "all_gather", 0)) == 2 * 2 * (total() - norms));
}

TEST_CASE("Angel-PTM: ZeRO-3 without whole small parameters", "[laws][systems]") {
  const auto step = step_of("angel-ptm");
  CHECK(sum(bytes_of(step, "parameters", "all_gather", 0)) >= 2 * total());
  CHECK(sum(bytes_of(step, "gradients", "reduce_scatter", 0)) == 2 * total());
  CHECK(all_beside(step));
}

TEST_CASE(
    "Colossal-AI: DDP buckets, stage 1 all-reduces, stage 2 reduce-scatters, in buckets of 12 Mi "
    "elements",
    "[laws][systems]") {
  const Arrays arrays = backward_arrays(false);
  CHECK(bytes_of(step_of("colossal-ai"), "gradients", "all_reduce") ==
        times(filled(arrays, 25 * kMiB / 2, 25 * kMiB / 2), 2));
  const auto one = step_of("colossal-ai", {"parallelism.sharding=zero1"});
  CHECK(sum(bytes_of(one, "gradients", "all_reduce", kMicroBatches - 1)) == 2 * total());
  CHECK(bytes_of(one, "gradients", "reduce_scatter").empty());
  CHECK(sum(bytes_of(one, "parameters", "all_gather")) == 2 * total());
  const auto two = step_of("colossal-ai", {"parallelism.sharding=zero2"});
  CHECK(sum(bytes_of(two, "gradients", "reduce_scatter")) == kMicroBatches * 2 * total());
  CHECK(bytes_of(two, "gradients", "all_reduce").empty());
  for (const std::int64_t bytes : bytes_of(two, "gradients", "reduce_scatter", 0)) {
    CHECK(bytes <= 2 * (12 * kMiB + kFfn * kHidden));
  }
}

TEST_CASE(
    "FairScale: FSDP gathers beside earlier layers; ShardedDDP reduces to owners; OSS broadcasts",
    "[laws][systems]") {
  const job::System system = config::system("fairscale");
  CHECK(system.forward_prefetch == Prefetch::implicit_);  // when the host reaches the unit
  CHECK(system.backward_prefetch == Prefetch::implicit_);
  const auto whole = step_of("fairscale");
  CHECK(all_beside(whole));
  CHECK(bytes_of(whole, "parameters", "all_gather", 0) == times(fsdp_gathers(), 2));
  CHECK(bytes_of(whole, "gradients", "reduce_scatter", 0).empty());  // no_sync
  CHECK(bytes_of(whole, "gradients", "reduce_scatter", kMicroBatches - 1) ==
        times(backwards(units()), 2));
  for (const char* stage : {"zero1", "zero2"}) {
    INFO(stage);
    const auto step = step_of("fairscale", {std::string("parallelism.sharding=") + stage});
    const bool owners = std::string(stage) == "zero2";
    const int times_reduced = owners ? kMicroBatches : 1;
    CHECK(sum(bytes_of(step, "gradients", owners ? "reduce" : "all_reduce")) ==
          times_reduced * 4 * total());
    CHECK(bytes_of(step, "gradients", owners ? "all_reduce" : "reduce").empty());
    CHECK(bytes_of(step, "parameters", "all_gather").empty());
    CHECK(sum(bytes_of(step, "parameters", "broadcast")) == 2 * total());
  }
}

TEST_CASE("PaddleNLP: stage1 V1 reduces to owners and broadcasts, V2 reduce-scatters and gathers",
          "[laws][systems]") {
  const auto first = step_of("paddlenlp", {"parallelism.sharding=zero1"});
  CHECK(sum(bytes_of(first, "gradients", "reduce")) == 2 * total());
  CHECK(sum(bytes_of(first, "parameters", "broadcast")) == 2 * total());
  CHECK(none_beside(first));
  const auto second =
      step_of("paddlenlp", {"parallelism.sharding=zero1", "system.reduce_to_owner=false"});
  CHECK(sum(bytes_of(second, "gradients", "reduce_scatter")) == 2 * total());
  CHECK(sum(bytes_of(second, "parameters", "all_gather")) == 2 * total());
}

// ---------------------------------------------------------------- Megatron-LM and its line
TEST_CASE("Megatron-LM: one fp32 all-reduce after the backward without flags", "[laws][systems]") {
  for (const char* system :
       {"megatron-lm", "megatron-lm-2021", "megatron-lm-2022", "megatron-lm-2023", "zero-bubble"}) {
    INFO(system);
    const auto step = step_of(system);
    CHECK(bytes_of(step, "gradients", "all_reduce") == Arrays{4 * total()});
    CHECK(step.size() == 1);
    CHECK(none_beside(step));
  }
}

TEST_CASE(
    "Megatron-LM's distributed optimizer: reduce-scatters of 40 M parameters in fp32, "
    "NeMo's of 128 Mi, in fp32 to 2024, later in bf16; bf16 "
    "gathers",
    "[laws][systems]") {
  struct Case {
    const char* system;
    int width;  // bytes of a gradient in communication
    std::int64_t bucket;
    int layers;
  };
  // max(40e6, 1e6 dp) with dp 8; bucket_size of NeMo's overlaps.
  for (const auto& [system, width, bucket, layers] :
       {Case{"megatron-lm", 4, 40'000'000, 8}, Case{"nemo-2024", 4, 128 * kMiB, 32},
        Case{"nemo", 2, 128 * kMiB, 32}, Case{"megatron-bridge", 2, 128 * kMiB, 32}}) {
    INFO(system);
    const auto step = step_of(system,
                              {"parallelism.sharding=zero1", "parallelism.overlap.grad_reduce=true",
                               "parallelism.overlap.param_gather=true"},
                              0, layers);
    const Arrays buckets = filled(backward_arrays(true, layers), bucket, bucket);
    REQUIRE(buckets.size() > 2);
    CHECK(bytes_of(step, "gradients", "reduce_scatter", kMicroBatches - 1) ==
          times(buckets, width));
    CHECK(bytes_of(step, "gradients", "reduce_scatter").size() == buckets.size());
    CHECK(sum(bytes_of(step, "parameters", "all_gather")) == 2 * total(layers));
    CHECK(all_beside(step));
  }
  // Without overlap the whole buffer is one bucket.
  const int layers = 8;
  const auto whole = step_of("megatron-lm", {"parallelism.sharding=zero1"}, 0, layers);
  CHECK(bytes_of(whole, "gradients", "reduce_scatter") == Arrays{4 * total(layers)});
  CHECK(bytes_of(whole, "parameters", "all_gather") == Arrays{2 * total(layers)});
}

TEST_CASE("Megatron-LM cuts buckets on the first stage only", "[laws][systems]") {
  const int layers = 16;
  const std::vector<std::string> set = {"parallelism.pipeline=2", "parallelism.sharding=zero1",
                                        "parallelism.overlap.grad_reduce=true"};
  const Lowered l = lower_job(job_text("megatron-lm", layers), set);
  const auto first = transmissions(l.world, 0);
  // Ranks of one stage are neighbours: 4 data-parallel ranks each.
  const auto last = transmissions(l.world, 4);
  const std::int64_t half = layers / 2 * layer();
  CHECK(bytes_of(first, "gradients", "reduce_scatter").size() > 1);
  CHECK(sum(bytes_of(first, "gradients", "reduce_scatter")) == 4 * (embedding() + half));
  CHECK(bytes_of(last, "gradients", "reduce_scatter") == Arrays{4 * (half + head())});
}

TEST_CASE(
    "Megatron-LLaMA: a reduce-scatter every micro-batch beside the backward, gathers beside the "
    "next forward",
    "[laws][systems]") {
  const auto step = step_of("megatron-llama");
  for (int mb = 0; mb < kMicroBatches; ++mb) {
    CHECK(bytes_of(step, "gradients", "reduce_scatter", mb) ==
          Arrays{4 * total()});  // below 5e8 elements
  }
  CHECK(sum(bytes_of(step, "parameters", "all_gather")) == 2 * total());
  CHECK(all_beside(step));
}

TEST_CASE("MegaScale: one reduce-scatter and one gather a model chunk", "[laws][systems]") {
  const int layers = 8;
  const Lowered l = lower_job(job_text("megascale", layers),
                              {"parallelism.pipeline=2", "parallelism.virtual_pipeline=2"});
  const auto first = transmissions(l.world, 0);
  const std::int64_t quarter = layers / 4 * layer();
  // The backward pass of chunk 1 of the first stage ends first.
  CHECK(bytes_of(first, "gradients", "reduce_scatter") ==
        times({quarter, embedding() + quarter}, 4));
  CHECK(bytes_of(first, "parameters", "all_gather") == times({embedding() + quarter, quarter}, 2));
  CHECK(all_beside(first));
}

TEST_CASE(
    "The zero-bubble fork passes the norm from stage to stage behind the step; Megatron-LM waits "
    "for all",
    "[laws][systems]") {
  struct Case {
    const char* system;
    const char* schedule;
    Arrays norms;
  };
  for (const Case& c : {Case{"zero-bubble", "zb_h1", {}}, Case{"megatron-lm", "1f1b", {4}}}) {
    INFO(c.system);
    const Lowered l =
        lower_job(job_text(c.system, 8),
                  {"parallelism.pipeline=8", std::string("parallelism.schedule=") + c.schedule});
    CHECK(bytes_of(transmissions(l.world, 0, program::Category::other), "gradient norm",
                   "all_reduce") == c.norms);
  }
}

// ---------------------------------------------------------------- pipelines
TEST_CASE("GPipe: activations to the next stage, their gradients back, nothing else",
          "[laws][systems]") {
  const Lowered l = lower_job(job_text("gpipe", 8), {"parallelism.pipeline=8"});
  const std::int64_t message = kSequence * kHidden * 2;
  const int micro_batches = 8 * kMicroBatches;
  for (const program::RankId rank : std::initializer_list<program::RankId>{0, 3, 7}) {
    INFO(rank);
    CHECK(transmissions(l.world, rank).empty());
    const auto all = transmissions(l.world, rank, program::Category::pipeline);
    const int neighbours = rank == 0 || rank == 7 ? 1 : 2;
    CHECK(bytes_of(all, "", "send") == repeated({message}, micro_batches * neighbours));
    CHECK(bytes_of(all, "", "receive") == repeated({message}, micro_batches * neighbours));
  }
}

TEST_CASE("torchtitan with stages: gathered and reduced once a step", "[laws][systems]") {
  const Lowered l = lower_job(job_text("torchtitan", 8), {"parallelism.pipeline=2"});
  const auto first = transmissions(l.world, 0);
  Arrays stage = {embedding()};
  stage.insert(stage.end(), 4, layer());
  CHECK(bytes_of(first, "parameters", "all_gather") == times(stage, 2));
  CHECK(bytes_of(first, "gradients", "reduce_scatter") == times(backwards(stage), 4));
}

TEST_CASE("Megatron-DeepSpeed: ZeRO-1 beside stages, reduced at the boundary, never overlapped",
          "[laws][systems]") {
  const Lowered l = lower_job(job_text("megatron-deepspeed", 8),
                              {"parallelism.pipeline=2", "parallelism.sharding=zero1",
                               "parallelism.overlap.grad_reduce=true"});
  const auto first = transmissions(l.world, 0);
  const std::int64_t stage = embedding() + 4 * layer();
  CHECK(sum(bytes_of(first, "gradients", "all_reduce")) == 2 * stage);
  CHECK(sum(bytes_of(first, "parameters", "all_gather")) == 2 * stage);
  CHECK(none_beside(first));
}

TEST_CASE("Linears of Megatron's kind in plain PyTorch sum their inputs' gradients one by one",
          "[laws][systems]") {
  const auto sums = [](const std::string& system, const std::string& linear,
                       const std::string& gated) {
    const Lowered l =
        lower_job(job_text(system), {"parallelism.tensor=2", "model.gated_mlp=" + gated,
                                     "parallelism.sequence_parallel=false"});
    return bytes_of(transmissions(l.world, 0, program::Category::tensor), linear + " dgrad",
                    "all_reduce", 0);
  };
  const std::int64_t input = 2 * kSequence * kHidden;
  CHECK(sums("aleph-alpha-scaling", "fc1", "true") == repeated({input}, 2 * kLayers));
  CHECK(sums("aleph-alpha-scaling", "fc1", "false") == repeated({input}, kLayers));
  CHECK(sums("aleph-alpha-scaling", "qkv", "true") == repeated({input}, kLayers));
  CHECK(sums("megatron-lm-2021", "fc1", "true") == repeated({input}, kLayers));
}
