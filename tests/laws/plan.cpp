// Closed forms that a lowered program must meet exactly: bytes per parameter of each training
// regime, activations in flight of each pipeline schedule.
#include <fmt/format.h>

#include <cmath>

#include "catch.hpp"
#include "stepcast/config/config.h"
#include "stepcast/lower/lower.h"
#include "stepcast/text/document.h"

using namespace stepcast;

namespace {

struct Lowered {
  strategy::Plan plan;
  program::World world;
};

Lowered lower_job(const std::string& text) {
  const job::Job job = config::parse(text, "job").job;
  const auto files = text::data_directory() / "calibration";
  cost::CurveTable curves;
  const cost::Kernels kernels(job.cluster.device, job.kernels.library, files, {}, curves);
  const cost::Collectives collectives(job.cluster, job.nccl, files, {}, curves);
  const auto topology = std::get<cluster::Topology>(cluster::Topology::build(job.cluster));
  lower::Prices prices;
  prices.kernels[job.cluster.device.name] = &kernels;
  prices.collectives = &collectives;
  prices.curves = &curves;
  Lowered out{std::get<strategy::Plan>(strategy::resolve(job)), {}};
  out.world = lower::build_world(out.plan, topology, prices);
  return out;
}

// Parameters, gradients and optimizer states of stage 0 in bytes. Gradients count where the
// framework allocates them.
std::int64_t state_bytes(const program::Program& p, bool megatron) {
  std::int64_t sum = 0;
  // DeepSpeed's whole gradients pass through buckets; what the step reads is a rank's part of them.
  const bool passing =
      std::find(p.labels.begin(), p.labels.end(), "partition of gradients") != p.labels.end();
  for (const auto& b : p.buffers) {
    using M = program::MemoryCategory;
    const bool state =
        b.category == M::parameters || b.category == M::gradients || b.category == M::optimizer;
    // DeepSpeed's fp32 gradients, their flat copy and the fp64 values of the norm exist only during
    // the step.
    const std::string& label = p.labels[b.label];
    const bool of_step = label == "fp32 gradients" || label == "flat gradients" ||
                         label == "gradient in fp64" || (passing && label == "gradients");
    if (state && (megatron || !of_step)) {
      sum += b.bytes.count();
    }
  }
  return sum;
}

std::int64_t parameters(const strategy::Plan& plan) {
  std::int64_t sum = 0;
  for (const auto& graph : {model::build_embedding(plan.model, plan.shard, plan.style),
                            model::build_head(plan.model, plan.shard, plan.style)}) {
    for (const auto& op : graph.operators) {
      sum += op.parameters;
    }
  }
  const auto layer =
      model::build_layer(plan.model, model::LayerKind::dense, plan.shard, plan.style);
  for (const auto& op : layer.operators) {
    sum += plan.model.layers * op.parameters;
  }
  return sum;
}

std::string job_text(const char* system, const char* sharding, const char* precision, int nodes,
                     const char* dtypes = "{}") {
  return fmt::format(
      "model: {{layers: 4, hidden: 1024, heads: 16, kv_heads: 16, head_dim: 64, ffn: 4096, vocab: "
      "51200, max_positions: "
      "1024, tied_embeddings: false}}\ncluster: {{use: dgx-a100, nodes: {}}}\nsystem: "
      "{}\nworkload: {{sequence_length: "
      "1024, global_batch: {}, precision: {}}}\nparallelism: {{sharding: {}}}\nmemory: {{dtypes: "
      "{}}}\n",
      nodes, system, nodes * 8, precision, sharding, dtypes);
}

}  // namespace

TEST_CASE("States take the bytes per parameter that each system documents", "[laws]") {
  struct Case {
    const char* system;
    const char* sharding;
    const char* precision;
    int nodes;
    double bytes;
    const char* why;
    double whole = 0;  // elements of arrays whose 16-bit gradients stand whole
  };
  // d data-parallel ranks: 8 are on one node and 16 on two. A list that a foreach optimizer makes
  // of an operation's results is no state.
  const Case cases[] = {
      {"megatron-lm", "none", "bf16", 1, 18,
       "2 parameter + 4 main gradient + 4 master + 8 moments"},
      {"megatron-lm", "zero1", "bf16", 1, 6 + 12.0 / 8, "dist_optimizer.md: 6 + 12/d"},
      {"megatron-lm", "zero1", "bf16", 2, 6 + 12.0 / 16, "dist_optimizer.md: 6 + 12/d"},
      {"megatron-lm", "none", "fp16", 1, 20, "2 + 2 + 4 fp32 gradient + 4 master + 8 moments"},
      {"megatron-lm", "zero1", "fp16", 1, 4 + 16.0 / 8, "dist_optimizer.md: 4 + 16/d"},
      {"{use: pytorch-ddp, foreach_optimizer: false}", "none", "bf16", 1, 16,
       "fp32 parameter, gradient, two moments"},
      {"{use: pytorch-fsdp2, foreach_optimizer: false}", "zero3", "bf16", 1, 16.0 / 8, "16/N"},
      {"{use: pytorch-fsdp2, foreach_optimizer: false}", "zero3", "bf16", 2, 16.0 / 16, "16/N"},
      // A partition of gradients keeps the arrays that it touches whole: the first rank's lies in
      // the word embeddings.
      {"deepspeed", "zero1", "bf16", 1, 2 + 12.0 / 8,
       "2 + 12/d, and gradients copied out of the buckets when the step begins", 51200.0 * 1024},
      {"deepspeed", "zero2", "bf16", 1, 2 + 12.0 / 8, "2 + 12/d and gradients", 51200.0 * 1024},
      {"{use: deepspeed, persistent_elements: 0}", "zero3", "bf16", 1, 16.0 / 8, "(2 + 2 + 12)/d"},
  };
  for (const Case& c : cases) {
    INFO(c.system << " " << c.sharding << " " << c.nodes << " nodes: " << c.why);
    const Lowered l = lower_job(job_text(c.system, c.sharding, c.precision, c.nodes));
    const double per_parameter =
        static_cast<double>(
            state_bytes(l.world.programs[0], std::string(c.system).starts_with("megatron"))) /
        static_cast<double>(parameters(l.plan));
    // Each tensor is rounded up to 512 bytes, and arrays in a distributed optimizer's buffers to 64
    // elements.
    const auto tensors = static_cast<double>(l.world.programs[0].blocks.size() + 8);
    const auto all = static_cast<double>(parameters(l.plan));
    CHECK(std::abs(per_parameter - c.bytes - 2 * c.whole / all) < 512 * tensors / all);
  }
}

TEST_CASE("Activations in flight follow the schedule", "[laws]") {
  struct Case {
    const char* schedule;
    int chunks;
    int micro_batches;
  };
  for (const Case& c : {Case{"gpipe", 1, 6}, Case{"1f1b", 1, 6}, Case{"1f1b", 1, 2},
                        Case{"interleaved_1f1b", 2, 8}}) {
    const int p = 4;
    const std::string text = fmt::format(
        "model: {{layers: {}, hidden: 512, heads: 8, kv_heads: 8, head_dim: 64, ffn: 2048, vocab: "
        "1024, max_positions: "
        "512}}\ncluster: {{use: dgx-a100, nodes: 1, gpus_per_node: 4}}\nsystem: "
        "{{use: megatron-lm, schedules: []}}\nworkload: {{sequence_length: "
        "512, global_batch: {}}}\nparallelism: {{pipeline: {}, virtual_pipeline: {}, schedule: "
        "{}}}\n",
        p * c.chunks, c.micro_batches, p, c.chunks, c.schedule);
    INFO(text);
    const Lowered l = lower_job(text);
    for (int rank = 0; rank < p; ++rank) {
      const auto& program = l.world.programs[rank];
      int live = 0;
      int most = 0;
      // a layer's kept activations, found as the largest buffer with that label
      std::int64_t one = 0;
      for (const auto& b : program.buffers) {
        if (program.labels[b.label] == "activations") {
          one = std::max(one, b.bytes.count());
        }
      }
      for (const auto& op : program.host) {
        const bool moves =
            op.kind == program::HostKind::allocate || op.kind == program::HostKind::release;
        if (!moves || program.labels[program.buffers[op.buffer].label] != "activations") {
          continue;
        }
        // One layer per chunk; embedding and head keep less or are no layers.
        const bool layer =
            program.buffers[op.buffer].bytes.count() == one || (rank > 0 && rank + 1 < p);
        if (rank + 1 == p && !layer) {
          continue;
        }
        if (layer) {
          live += op.kind == program::HostKind::allocate ? 1 : -1;
          most = std::max(most, live);
        }
      }
      const int m = c.micro_batches;
      const int expected =
          std::string(c.schedule) == "gpipe" ? m
          : std::string(c.schedule) == "1f1b"
              ? std::min(m, p - rank)
              : std::min(m * c.chunks, 2 * (p - rank - 1) + (c.chunks - 1) * p + 1);
      INFO("rank " << rank);
      CHECK(live == 0);
      CHECK(most == expected);
    }
  }
}
