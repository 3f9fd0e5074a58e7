// Compares the folded with the full simulation for all forms of data parallelism in whole jobs, and
// checks upper limits of their cost.
#include <fmt/format.h>

#include <map>

#include "catch.hpp"
#include "stepcast/config/config.h"
#include "stepcast/engine/engine.h"
#include "stepcast/lower/fold.h"
#include "stepcast/lower/lower.h"
#include "stepcast/text/document.h"
#include "support/run_world.h"

using namespace stepcast;

namespace {

struct Machine {
  job::Job job;
  cost::CurveTable curves;
  cluster::Topology topology;
  cost::Kernels kernels;
  cost::Collectives collectives;
  program::World world;

  explicit Machine(const std::string& text)
      : job(config::parse(text, "job").job),
        topology(std::get<cluster::Topology>(cluster::Topology::build(job.cluster))),
        kernels(job.cluster.device, job.kernels.library, text::data_directory() / "calibration", {},
                curves),
        collectives(job.cluster, job.nccl, text::data_directory() / "calibration", {}, curves) {
    auto plan = strategy::resolve(job);
    if (const auto* why = std::get_if<Infeasible>(&plan)) {
      FAIL(why->key << ": " << why->reason);
    }
    lower::Prices prices;
    prices.kernels[job.cluster.device.name] = &kernels;
    prices.collectives = &collectives;
    prices.curves = &curves;
    world = lower::build_world(std::get<strategy::Plan>(plan), topology, prices);
  }
};

std::string text_of(const std::string& system, const std::string& parallelism,
                    const std::string& workload = "") {
  return fmt::format(
      "model: {{layers: 8, hidden: 1024, heads: 16, kv_heads: 16, head_dim: 64, ffn: 4096, vocab: "
      "32000, "
      "max_positions: 1024, tied_embeddings: false}}\ncluster: {{use: dgx-a100, nodes: "
      "2}}\nsystem: {}\nworkload: "
      "{{sequence_length: 1024, global_batch: 64{}}}\nparallelism: {}\n",
      system, workload, parallelism);
}

using support::run;

program::Timeline run(const std::string& text) { return run(Machine(text).world); }

}  // namespace

TEST_CASE("Every form of data parallelism folds, ends, and gives its memory back", "[agree]") {
  const std::string free_fsdp = "{use: pytorch-fsdp2, cannot: {}, schedules: []}";
  const std::string zero3 = "{use: deepspeed, reuse_elements: 0}";
  const std::string away = "memory: {offload: {activations: cpu}}\n";
  const std::string jobs[] = {
      text_of("pytorch-ddp", "{}"),
      text_of("pytorch-ddp", "{accumulation: {reduce: each}}"),
      text_of("horovod", "{}"),
      text_of("{use: horovod, hierarchical_all_reduce: true}", "{}"),
      text_of("deepspeed", "{sharding: zero1}"),
      text_of("deepspeed", "{sharding: zero2}"),
      text_of("deepspeed", "{sharding: zero3}"),
      text_of(zero3, "{sharding: zero3, zeropp: {weights: int8, gradients: int4, partition: 8}}"),
      text_of("pytorch-fsdp1", "{}"),
      text_of("pytorch-fsdp1", "{sharding: zero2}"),
      text_of("{use: pytorch-fsdp1, backward_prefetch: implicit}", "{}"),
      text_of("fairscale", "{}"),
      text_of("fairscale", "{sharding: zero2}"),
      text_of("pytorch-fsdp2", "{sharding: hsdp, shard_size: 8}"),
      text_of("pytorch-fsdp2", "{reshard_after_forward: 8}"),
      text_of("megatron-fsdp", "{}"),
      text_of("{use: megatron-fsdp, double_buffers: true, unit_buffer_elements: 4}",
              "{shard_size: 8}"),
      text_of("pytorch-fsdp2", "{reshard_after_forward: false}"),
      text_of("{use: pytorch-fsdp2, unit_layers: 2}", "{}"),
      text_of(free_fsdp, "{pipeline: 4}"),
      text_of(free_fsdp, "{pipeline: 4, reshard_after_forward: false}"),
      text_of(free_fsdp, "{pipeline: 4, accumulation: {reduce: each}}"),
      text_of(free_fsdp, "{pipeline: 2, virtual_pipeline: 2, schedule: interleaved_1f1b}"),
      text_of(free_fsdp, "{pipeline: 4, schedule: zb_h1}"),
      text_of("megatron-llama", "{pipeline: 2}"),
      text_of("megascale",
              "{tensor: 2, pipeline: 2, virtual_pipeline: 2, overlap: {tensor: false}}"),
      text_of("megatron-lm",
              "{pipeline: 4, virtual_pipeline: 2, sharding: zero1, overlap: {grad_reduce: true, "
              "param_gather: true}}"),
      text_of("{use: megatron-lm, schedules: []}", "{pipeline: 4, schedule: dualpipe}"),
      text_of("{use: megatron-lm, schedules: []}",
              "{pipeline: 4, schedule: dualpipe, sharding: zero1}"),
      text_of("{use: megatron-lm, schedules: []}",
              "{pipeline: 4, schedule: zb_h1, sharding: zero1}"),
      text_of("deepspeed", "{pipeline: 2, sharding: zero1}"),
      text_of("colossal-ai", "{sharding: zero3}"),
      text_of("paddlenlp", "{sharding: zero1}"),
      text_of("alpa", "{pipeline: 2}"),
      text_of("maxtext", "{}"),
      text_of("angel-ptm", "{}"),
      text_of("pytorch-fsdp2", "{}") + away,
      text_of("pytorch-fsdp1", "{sharding: zero2}") + away,
      text_of("deepspeed", "{sharding: zero3}") + away,
      text_of("pytorch-ddp", "{}") + away,
      text_of("megatron-lm", "{}") +
          "memory: {offload: {activations: cpu, activation_layers: 1}}\n",
  };
  for (const std::string& text : jobs) {
    INFO(text);
    const Machine machine(text);
    const auto folded = lower::fold(machine.world);
    REQUIRE(folded);
    const program::Timeline slow = run(machine.world);
    const program::Timeline fast = run(folded->world);
    CHECK(slow.period == fast.period);
    CHECK(slow.first_step == fast.first_step);
    for (std::size_t r = 0; r < machine.world.ranks.size(); ++r) {
      const auto& x = slow.ranks[r];
      const auto& y = fast.ranks[folded->class_of[r]];
      REQUIRE(x.breakdown == y.breakdown);
      REQUIRE(x.peak_allocated == y.peak_allocated);
      REQUIRE(x.steady == y.steady);
    }
    for (const program::Program& p : machine.world.programs) {
      std::vector<int> balance(p.buffers.size(), 0);
      for (const auto& op : p.host) {
        balance[op.buffer] += op.kind == program::HostKind::allocate  ? 1
                              : op.kind == program::HostKind::release ? -1
                                                                      : 0;
      }
      for (std::size_t i = 0; i < balance.size(); ++i) {
        INFO(p.name << ": " << p.labels[p.buffers[i].label]);
        CHECK(balance[i] == 0);
      }
    }
  }
}

TEST_CASE("Overlap and prefetching do not cost time, sharding does not cost memory", "[agree]") {
  // The same volume while compute runs.
  const auto period = [](const std::string& text) { return run(text).period; };
  const auto peak = [](const std::string& text) { return run(text).ranks[0].peak_allocated; };
  CHECK(period(text_of("pytorch-ddp", "{}")) <
        period(text_of("pytorch-ddp", "{overlap: {grad_reduce: false}}")));
  CHECK(period(text_of("megatron-lm",
                       "{sharding: zero1, overlap: {grad_reduce: true, param_gather: true}}")) <
        period(text_of("megatron-lm", "{sharding: zero1}")));
  CHECK(period(text_of("{use: pytorch-fsdp1, forward_prefetch: explicit}", "{}")) <=
        period(text_of("{use: pytorch-fsdp1, forward_prefetch: none, backward_prefetch: none}",
                       "{}")));
  CHECK(period(text_of("pytorch-ddp", "{}")) <
        period(text_of("pytorch-ddp", "{accumulation: {reduce: each}}")));
  // The gather of the backward pass stays inside the node, which tells where it is exposed and the
  // host does not determine the step: it launches more copies.
  const std::string quick_host =
      "{use: pytorch-fsdp2, backward_prefetch: none, layer_overhead: 0, unit_overhead: 0}";
  CHECK(period(text_of(quick_host, "{reshard_after_forward: 8}")) <
        period(text_of(quick_host, "{}")));
  // Whole, then states, gradients and parameters sharded.
  const auto none = peak(text_of("deepspeed", "{sharding: none}"));
  const auto zero1 =
      peak(text_of("{use: deepspeed, bucket_elements: 10000000}", "{sharding: zero1}"));
  const auto zero2 =
      peak(text_of("{use: deepspeed, bucket_elements: 10000000}", "{sharding: zero2}"));
  // A model as small as this one would be gathered ahead whole.
  const auto zero3 = peak(
      text_of("{use: deepspeed, bucket_elements: 10000000, reuse_elements: 0, live_elements: 1}",
              "{sharding: zero3}"));
  CHECK(zero1 < none);
  CHECK(zero2 < zero1);
  CHECK(zero3 < zero2);
  // Kept between forward and backward, parameters take more.
  CHECK(peak(text_of("pytorch-fsdp2", "{}")) <
        peak(text_of("pytorch-fsdp2", "{reshard_after_forward: false}")));
}
