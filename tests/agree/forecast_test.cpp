// Whole jobs, drawn at random with a fixed seed. Compares the folded with the full simulation, the
// lower bound with the engine, and the interval by sensitivities with Monte Carlo.
#include <fmt/format.h>

#include <numeric>
#include <random>

#include "catch.hpp"
#include "stepcast/bound/bound.h"
#include "stepcast/config/config.h"
#include "stepcast/engine/engine.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/lower/fold.h"
#include "stepcast/lower/lower.h"
#include "stepcast/text/document.h"

using namespace stepcast;

namespace {

struct Drawn {
  job::Job job;
  std::string text;
};

int pick(std::mt19937& random, std::initializer_list<int> choices) {
  return choices.begin()[std::uniform_int_distribution<std::size_t>(0, choices.size() - 1)(random)];
}

// Draws a job of at most 64 ranks; every third one has a slow node or a degraded link.
Drawn draw(std::mt19937& random) {
  const int nodes = pick(random, {1, 2, 4, 8});
  const bool fsdp = pick(random, {0, 0, 0, 1}) == 1;
  const int ranks = nodes * 8;
  int tensor = fsdp ? 1 : pick(random, {1, 2, 4, 8});
  int pipeline = fsdp ? 1 : pick(random, {1, 2, 4});
  while (tensor * pipeline > ranks) {
    pipeline = std::max(1, pipeline / 2);
    tensor = pipeline == 1 ? std::min(tensor, ranks) : tensor;
  }
  const int chunks = pipeline > 1 ? pick(random, {1, 1, 2}) : 1;
  const int data = ranks / tensor / pipeline;
  const int micro_batches = pipeline * pick(random, {1, 2, 3});
  const char* sharding = fsdp ? "zero3" : pick(random, {0, 1}) != 0 ? "zero1" : "none";
  const bool overlap = pick(random, {0, 1}) != 0;
  // The distributed optimizer is younger than the first generation.
  const bool first = std::string(sharding) == "none";
  const char* system =
      fsdp ? "pytorch-fsdp2"
           : std::initializer_list<const char*>{"megatron-lm",
                                                first ? "megatron-lm-2021" : "megatron-lm-2023",
                                                "megatron-lm-2022"}
                 .begin()[pick(random, {0, 1, 2})];
  const char* recompute = std::initializer_list<const char*>{"none", "full", "selective"}
                              .begin()[pick(random, {0, 1, 2})];
  const bool sequence_parallel =
      tensor > 1 && std::string(system) != "megatron-lm-2021" && pick(random, {0, 1}) != 0;
  std::string shard_size;
  if (fsdp && data >= 16 && pick(random, {0, 1}) != 0) {
    shard_size = ", shard_size: 8";
  }
  const std::string text = fmt::format(
      "model: {{layers: {}, hidden: 1024, heads: 16, kv_heads: 16, head_dim: 64, ffn: 4096, vocab: "
      "32000, max_positions: "
      "1024, tied_embeddings: {}}}\n"
      "cluster: {{use: dgx-a100, nodes: {}}}\n"
      "system: {}\n"
      "workload: {{sequence_length: 1024, global_batch: {}, micro_batch: {}}}\n"
      "parallelism: {{tensor: {}, pipeline: {}, virtual_pipeline: {}, sequence_parallel: {}, "
      "sharding: {}{}, overlap: "
      "{{grad_reduce: {}, param_gather: {}, pipeline: {}}}}}\n"
      "memory: {{recompute: {}}}\n",
      4 * pipeline * chunks, pick(random, {0, 1}) != 0, nodes, system, data * micro_batches, 1,
      tensor, pipeline, chunks, sequence_parallel, sharding, shard_size, overlap,
      overlap && std::string(sharding) == "zero1", chunks > 1 && overlap, recompute);
  Drawn out{config::parse(text, "drawn").job, text};
  const int odd = pick(random, {0, 1, 2, 3, 4, 5});
  if (odd == 0 && nodes > 1) {
    job::Device slow = out.job.cluster.device;
    slow.name = "slow-a100";
    for (auto& [type, rate] : slow.peak) {
      rate = rate * 0.7;
    }
    out.job.cluster.overrides.push_back({nodes - 1, 1, slow});
    out.text += "# a slow last node\n";
  } else if (odd == 1) {
    out.job.cluster.faults.push_back(
        {fmt::format("node{}/nic{}", nodes - 1, pick(random, {0, 3, 7})), 0.4});
    out.text += "# a thin NIC\n";
  }
  return out;
}

struct Machine {
  cost::CurveTable curves;
  cluster::Topology topology;
  std::map<std::string, cost::Kernels> kernels;
  std::unique_ptr<cost::Collectives> collectives;
  strategy::Plan plan;

  explicit Machine(const job::Job& job)
      : topology(std::get<cluster::Topology>(cluster::Topology::build(job.cluster))),
        plan(std::get<strategy::Plan>(strategy::resolve(job))) {
    const auto files = text::data_directory() / "calibration";
    kernels.emplace(job.cluster.device.name,
                    cost::Kernels(job.cluster.device, job.kernels.library, files, {}, curves));
    for (const auto& o : job.cluster.overrides) {
      kernels.emplace(o.device.name,
                      cost::Kernels(o.device, job.kernels.library, files, {}, curves));
    }
    collectives = std::make_unique<cost::Collectives>(job.cluster, job.nccl, files,
                                                      std::vector<std::string>{}, curves);
  }

  lower::Prices prices() {
    lower::Prices p;
    p.collectives = collectives.get();
    p.curves = &curves;
    for (const auto& [name, k] : kernels) {
      p.kernels[name] = &k;
    }
    return p;
  }
};

}  // namespace

TEST_CASE("Folded equals full to the picosecond and the byte, and the bound is never above",
          "[agree]") {
  std::mt19937 random(20261120);
  int folded_smaller = 0;
  for (int n = 0; n < 220; ++n) {
    const Drawn drawn = draw(random);
    INFO("job " << n << "\n" << drawn.text);
    Machine machine(drawn.job);
    const auto prices = machine.prices();
    const program::World full = lower::build_world(machine.plan, machine.topology, prices);
    const auto folded = lower::fold(full);
    REQUIRE(folded);
    const auto a = engine::run(full);
    const auto b = engine::run(folded->world);
    const auto* slow = std::get_if<program::Timeline>(&a);
    const auto* fast = std::get_if<program::Timeline>(&b);
    if (slow == nullptr) {
      for (const auto& line : std::get<program::Deadlock>(a).chain) {
        UNSCOPED_INFO(line);
      }
    }
    REQUIRE(slow != nullptr);
    REQUIRE(fast != nullptr);
    CHECK(slow->period == fast->period);
    CHECK(slow->first_step == fast->first_step);
    CHECK(slow->periodic == fast->periodic);
    for (std::size_t r = 0; r < full.ranks.size(); ++r) {
      const auto& x = slow->ranks[r];
      const auto& y = fast->ranks[folded->class_of[r]];
      REQUIRE(x.breakdown == y.breakdown);
      REQUIRE(x.peak_allocated == y.peak_allocated);
      REQUIRE(x.steady == y.steady);
      REQUIRE(x.at_peak == y.at_peak);
      const auto sum = std::accumulate(x.breakdown.begin(), x.breakdown.end(), Time{0});
      if (slow->periodic) {
        REQUIRE(sum == slow->period);
      }
    }
    folded_smaller += folded->world.ranks.size() < full.ranks.size() ? 1 : 0;

    engine::Options patient;
    patient.min_steps = 5;
    const auto later = engine::run(folded->world, patient);
    const auto& settled = std::get<program::Timeline>(later);
    CHECK(settled.period == fast->period);
    for (std::size_t r = 0; r < settled.ranks.size(); ++r) {
      REQUIRE(settled.ranks[r].breakdown == fast->ranks[r].breakdown);
    }

    lower::Options unmerged;
    unmerged.merge = false;
    const auto detailed =
        lower::fold(lower::build_world(machine.plan, machine.topology, prices, unmerged));
    REQUIRE(detailed);
    const auto c = engine::run(detailed->world);
    const auto& plain = std::get<program::Timeline>(c);
    CHECK(plain.period == slow->period);
    CHECK(plain.tasks >= fast->tasks);
    for (std::size_t r = 0; r < plain.ranks.size(); ++r) {
      REQUIRE(plain.ranks[r].breakdown == fast->ranks[r].breakdown);
      REQUIRE(plain.ranks[r].peak_allocated == fast->ranks[r].peak_allocated);
    }

    bound::Bound bound(drawn.job, machine.topology, prices);
    const auto least = bound.evaluate(bound::candidate_of(machine.plan));
    REQUIRE(least.feasible);
    CHECK(least.step <= slow->period);
    CHECK(least.step > slow->period / 20);
    std::int64_t fullest = 0;
    for (const auto& r : slow->ranks) {
      fullest = std::max(fullest, r.peak_allocated.count());
    }
    CHECK(least.memory.count() <= fullest);
    CHECK(least.memory.count() > fullest / 20);
  }
  CHECK(folded_smaller > 150);
}

TEST_CASE("The interval by sensitivities agrees with Monte Carlo", "[agree]") {
  forecast::Forecaster forecaster(text::data_directory());
  for (const char* text : {
           "model: {layers: 8, hidden: 4096, heads: 32, kv_heads: 32, head_dim: 128, ffn: 16384, "
           "vocab: 51200, "
           "max_positions: 2048}\ncluster: {use: dgx-a100, nodes: 4}\nsystem: "
           "megatron-lm-2022\nworkload: "
           "{sequence_length: 2048, global_batch: 32, micro_batch: 1}\nparallelism: {tensor: 4, "
           "pipeline: 4, "
           "sequence_parallel: true}\n",
           "model: {use: llama-3-8b, layers: 8}\ncluster: {use: dgx-h100, nodes: 1}\nsystem: "
           "pytorch-fsdp2\nworkload: "
           "{sequence_length: 4096, global_batch: 8, micro_batch: 1}\n",
       }) {
    const auto job = config::parse(text, "job").job;
    const auto quick = std::get<result::Report>(forecaster.forecast(job));
    forecast::Options options;
    options.samples = 2000;
    const auto sampled = std::get<result::Report>(forecaster.forecast(job, options));
    const double width = quick.step_time.high - quick.step_time.low;
    INFO(text << "sensitivities " << quick.step_time.low << " .. " << quick.step_time.high
              << ", samples " << sampled.step_time.low << " .. " << sampled.step_time.high);
    // A smaller slowdown of kernels during communication does not make the communication faster, so
    // for FSDP the samples reach less far down than the slope at the forecast predicts.
    CHECK(quick.step_time.low - sampled.step_time.low <= 0.1 * width);
    CHECK(sampled.step_time.low - quick.step_time.low <= 0.15 * width);
    CHECK(std::abs(quick.step_time.high - sampled.step_time.high) <= 0.1 * width);
  }
}

namespace {

result::Report forecast_of(const std::string& text, forecast::Options options = {}) {
  static forecast::Forecaster forecaster(text::data_directory());
  return std::get<result::Report>(forecaster.forecast(config::parse(text, "job").job, options));
}

// A job on two nodes with one stage each; `cluster` is inserted into the cluster's braces.
std::string two_stages(const std::string& cluster) {
  return "model: {use: llama-3-8b, layers: 8}\ncluster: {use: dgx-a100, nodes: 2" + cluster +
         "}\nsystem: megatron-lm\nworkload: {sequence_length: 4096, global_batch: 16}\n"
         "parallelism: {tensor: 8, pipeline: 2}\n";
}

}  // namespace

TEST_CASE("An override under the name of the cluster's own device concerns its nodes alone",
          "[agree]") {
  const auto even = forecast_of(two_stages(""));
  const auto mixed =
      forecast_of(two_stages(", overrides: [{first: 1, count: 1, device: {use: a100-sxm-80, "
                             "memory_bandwidth: 500 GB/s}}]"));
  REQUIRE(mixed.breakdown.size() == 2);
  CHECK(mixed.breakdown[0].compute == even.breakdown[0].compute);
  CHECK(mixed.breakdown[1].compute > even.breakdown[1].compute);
}

TEST_CASE("A job fits when each rank fits the GPU it runs on", "[agree]") {
  const auto even = forecast_of(two_stages(""));
  CHECK(even.fits);
  for (const int node : {0, 1}) {
    const auto mixed = forecast_of(
        two_stages(fmt::format(", overrides: [{{first: {}, count: 1, device: {{use: a100-sxm-80, "
                               "memory: 2 GB}}}}]",
                               node)));
    CHECK_FALSE(mixed.fits);
    CHECK(mixed.capacity.count() < 3'000'000'000);
  }
}

TEST_CASE("The bound holds with a slow GPU link, whichever stage has it", "[agree]") {
  forecast::Options bound;
  bound.fidelity = forecast::Fidelity::bound;
  for (const char* link : {"node0/gpu1", "node1/gpu1"}) {
    const std::string text =
        two_stages(fmt::format(", faults: [{{link: {}, bandwidth: 0.1}}]", link));
    const auto least = forecast_of(text, bound);
    const auto real = forecast_of(text);
    INFO(link);
    CHECK(least.step_time.value <= real.step_time.value);
    CHECK(least.peak.value > 0);
    CHECK(least.peak.value <= real.peak.value);
    CHECK(least.capacity == real.capacity);
  }
}

TEST_CASE("The bound holds for a cluster of two devices, whichever the job names first",
          "[agree]") {
  forecast::Options bound;
  bound.fidelity = forecast::Fidelity::bound;
  for (const char* other : {"h100-sxm", "a100-sxm-40", "h20"}) {
    for (const int node : {0, 1}) {
      const std::string text = two_stages(
          fmt::format(", overrides: [{{first: {}, count: 1, device: {}}}]", node, other));
      INFO(other << " on node " << node);
      CHECK(forecast_of(text, bound).step_time.value <= forecast_of(text).step_time.value);
    }
  }
}

TEST_CASE("The bound is near the step, and never above it, where gradients' reduction takes long",
          "[agree]") {
  forecast::Options bound;
  bound.fidelity = forecast::Fidelity::bound;
  // The last value is the share of the step that the bound must reach.
  const auto [job, share] = GENERATE(
      // A later stage reduces while earlier ones still run their last backward passes: its
      // parameters are more (a decoder, a head).
      std::pair("model: t5-11b\ncluster: {use: tpu-v7, nodes: 1}\nparallelism: {pipeline: 2}\n"
                "workload: {sequence_length: 1024, global_batch: 12, micro_batch: 2}\n",
                0.9),
      std::pair("model: t5-11b\ncluster: {use: rtx4090-server, nodes: 1}\nparallelism: {pipeline: "
                "4}\nworkload: {sequence_length: 256, global_batch: 12, micro_batch: 2}\n",
                0.9),
      std::pair("model: gemma-2-27b\ncluster: {use: hgx-h200, nodes: 1}\nparallelism: {pipeline: "
                "2}\nworkload: {sequence_length: 1, global_batch: 4, finetune: {adapter: "
                "{modules_to_save: [head]}}}\n",
                0.9),
      // Two levels are faster than the library's one.
      std::pair("model: {layers: 1, hidden: 512, heads: 1, vocab: 128000}\nsystem: "
                "{hierarchical_all_reduce: true}\ncluster: {use: h100-nvl-pairs, nodes: 1}\n"
                "workload: {sequence_length: 1, global_batch: 4}\n",
                0.85),
      // Four bits of each gradient travel, not the 32 of their sum.
      std::pair(
          "model: llama-3.2-1b\nsystem: deepspeed\ncluster: {use: dgx-a100, nodes: 2, node: "
          "{nic: 10 MB/s}}\nparallelism: {sharding: zero3, zeropp: {gradients: int4, weights: "
          "int8, partition: 8}}\nworkload: {sequence_length: 64, global_batch: 16}\n",
          0.2));
  INFO(job);
  const double step = forecast_of(job).step_time.value;
  const double least = forecast_of(job, bound).step_time.value;
  CHECK(least <= step);
  CHECK(least > share * step);
}

TEST_CASE("Samples give every rate its interval, and each holds its value", "[agree]") {
  const std::string text = two_stages("");
  for (const int samples : {1, 40}) {
    forecast::Options options;
    options.samples = samples;
    const auto r = forecast_of(text, options);
    for (const auto* e : {&r.step_time, &r.tokens_per_second_per_gpu, &r.mfu, &r.hfu}) {
      CHECK(e->low <= e->value);
      CHECK(e->value <= e->high);
    }
    CHECK(r.mfu.high * r.step_time.low == Approx(r.mfu.value * r.step_time.value));
    CHECK(r.mfu.low * r.step_time.high == Approx(r.mfu.value * r.step_time.value));
  }
}

TEST_CASE("The peak's time lies within the step", "[agree]") {
  // At the peak, the host is a fifth of a second ahead of the GPU.
  const auto r = forecast_of(
      "model: llama-2-7b\ncluster: {use: dgx-a100, nodes: 2}\nsystem: megatron-lm-2021\n"
      "workload: {sequence_length: 4096, global_batch: 256, micro_batch: 2}\n"
      "kernels: {attention: flash2}\n");
  for (const auto& m : r.memory) {
    CHECK(m.at.count() >= 0);
    CHECK(static_cast<double>(m.at.count()) * 1e-12 < r.step_time.value);
  }
}

namespace {

Time total(const result::StageBreakdown& b) {
  return b.compute + b.recompute + b.slowdown + b.tensor + b.pipeline + b.data + b.context +
         b.expert + b.offload + b.other + b.bubble + b.host + b.optimizer + b.stall;
}

}  // namespace

// Every schedule and parallelism on 16 GPUs: the bound holds, the folded equals the full
// simulation, and a stage's breakdown adds up to the step.
TEST_CASE(
    "Every schedule and parallelism: the bound holds, folded equals full, the breakdown adds up",
    "[agree]") {
  const std::string dense = "model: {use: llama-3-8b, layers: 32}\n";
  const std::string experts = "model: {use: mixtral-8x7b, layers: 8}\n";
  struct Case {
    const std::string* model;
    std::string parallelism;
    std::string rest = {};
    int micro_batch = 1;
  };
  std::vector<Case> cases;
  for (const char* schedule :
       {"gpipe", "1f1b", "1f1b_overlap", "zb_h1", "zb_h2", "zb_auto", "zb_v", "v_half", "v_min",
        "dualpipe", "dualpipe_v", "chimera", "interlaced", "1f1b+vocab_1", "1f1b+vocab_2"}) {
    cases.push_back({&dense, fmt::format("tensor: 2, pipeline: 4, schedule: {}", schedule)});
  }
  for (const char* schedule : {"interleaved_1f1b", "interleaved_zb", "looped_bfs", "circular"}) {
    cases.push_back(
        {&dense, fmt::format("pipeline: 4, virtual_pipeline: 2, schedule: {}", schedule)});
  }
  for (const char* kind : {"p2p", "all_gather", "a2a", "hierarchical"}) {
    cases.push_back(
        {&dense,
         fmt::format("tensor: 2, sequence_parallel: true, context: {{size: 4, kind: {}}}", kind)});
  }
  for (const char* overlap : {"bulk", "ring", "async"}) {
    cases.push_back(
        {&dense,
         fmt::format("tensor: 8, sequence_parallel: true, overlap: {{tensor: {}}}", overlap)});
  }
  for (const char* grid : {"2d", "2.5d, tensor_depth: 2", "3d"}) {
    const int ranks = std::string(grid) == "2d" ? 4 : 8;
    Case c{&dense, fmt::format("tensor: {}, tensor_kind: {}", ranks, grid)};
    c.micro_batch = 4;  // sequences are distributed over the grid's rows
    cases.push_back(c);
  }
  for (const char* dispatcher : {"allgather", "alltoall", "deepep", "hybridep"}) {
    cases.push_back(
        {&experts,
         "tensor: 2, sequence_parallel: true, expert: 8, expert_tensor: 1, sharding: zero1",
         fmt::format("moe: {{dispatcher: {}}}\n", dispatcher)});
  }
  cases.push_back(
      {&experts, "pipeline: 2, expert: 4, expert_tensor: 1, context: 2, sharding: zero1"});
  for (const char* pairs : {"expert: 8", "pipeline: 2, virtual_pipeline: 2, expert: 8"}) {
    cases.push_back(
        {&experts, fmt::format("{}, expert_tensor: 1, overlap: {{expert: true}}", pairs)});
  }
  cases.push_back({&dense, "sharding: zero3, shard_size: 8, reshard_after_forward: false"});
  cases.push_back({&dense, "pipeline: 2, sharding: zero2"});
  forecast::Options bound;
  bound.fidelity = forecast::Fidelity::bound;
  forecast::Options full;
  full.fidelity = forecast::Fidelity::full;
  for (const Case& c : cases) {
    const std::string text = *c.model +
                             "cluster: {use: dgx-h100, nodes: 2}\n"
                             "workload: {sequence_length: 4096, global_batch: 64, micro_batch: " +
                             std::to_string(c.micro_batch) + "}\nparallelism: {" + c.parallelism +
                             "}\n" + c.rest;
    INFO(text);
    const auto report = forecast_of(text);
    CHECK(forecast_of(text, bound).step_time.value <= report.step_time.value);
    const auto every_rank = forecast_of(text, full);
    CHECK(every_rank.step_time.value == report.step_time.value);
    REQUIRE_FALSE(report.breakdown.empty());
    for (std::size_t stage = 0; stage < report.breakdown.size(); ++stage) {
      CHECK(total(report.breakdown[stage]) == total(report.breakdown.front()));
    }
  }
}
