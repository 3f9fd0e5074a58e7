// The survey's comparison of strategies on one fully connected layer (N samples, D_in x D_out, P
// processors): computation of each device, parameters held by all of them together, and
// communication, which takes no time with free links.
#include <fmt/format.h>

#include "catch.hpp"
#include "stepcast/engine/engine.h"
#include "support/lowered.h"

using namespace stepcast;
using program::Category;
using support::Lowered;

namespace {

constexpr int kProcessors = 4;

// The layer is the first MLP product of a transformer with as many layers as processors, since
// pipelines need several.
std::string job_text(int processors, const std::string& parallelism, const char* system) {
  return fmt::format(
      "model: {{layers: 4, hidden: 1024, heads: 16, kv_heads: 16, head_dim: 64, ffn: 4096, vocab: "
      "32768, positions: rotary, "
      "tied_embeddings: false}}\n"
      "cluster: {{use: dgx-a100, nodes: 1, gpus_per_node: {}}}\nsystem: {}\n"
      "workload: {{sequence_length: 4096, global_batch: 16}}\nkernels: {{attention: "
      "flash2}}\nparallelism: {}\n",
      processors, system, parallelism);
}

// Multiply-adds of the layer's product that one rank launches in the forward passes of a step, from
// its chunks, micro-batches and shapes.
double flops(const Lowered& l) {
  double one = 0;
  for (const auto& op :
       model::build_layer(l.job.model, model::LayerKind::dense, l.plan.shard, l.plan.style)
           .operators) {
    one += op.name == "fc1" ? op.forward.count() : 0;
  }
  int layers = 0;
  for (const auto& chunk : l.plan.stages.front()) {
    layers += chunk.layers;
  }
  int launched = 0;
  for (const auto& task : l.program().tasks) {
    launched +=
        task.kind == program::TaskKind::kernel && l.program().labels[task.label] == "fc1" ? 1 : 0;
  }
  CHECK(launched == layers * l.plan.micro_batches);
  return one * launched;
}

double held(const Lowered& l) {
  double sum = 0;
  for (std::size_t r = 0; r < l.world.ranks.size(); ++r) {
    for (const auto& b : l.program(r).buffers) {
      sum += b.persistent && b.category == program::MemoryCategory::parameters
                 ? static_cast<double>(b.bytes.count())
                 : 0;
    }
  }
  return sum;
}

std::int64_t exposed(const Lowered& l, std::initializer_list<Category> categories) {
  const auto timeline = std::get<program::Timeline>(engine::run(l.world));
  std::int64_t sum = 0;
  for (const auto& rank : timeline.ranks) {
    for (const Category c : categories) {
      sum += rank.breakdown[static_cast<std::size_t>(c)].count();
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("Table 4: computation, parameters and communication of each strategy", "[laws]") {
  struct Row {
    const char* strategy;
    const char* parallelism;
    const char* system;
    double copies;  // copies of the parameters, over all devices
    std::initializer_list<Category> communication;
  };
  const Row rows[] = {
      {"data", "{sharding: none}", "megatron-lm", kProcessors, {Category::data}},
      {"fully sharded data", "{sharding: zero3}", "pytorch-fsdp2", 1, {Category::data}},
      {"tensor", "{tensor: 4}", "megatron-lm", 1, {Category::tensor}},
      {"pipeline", "{pipeline: 4}", "megatron-lm", 1, {Category::pipeline}},
      {"sequence",
       "{context: {size: 4, kind: all_gather}}",
       "megatron-lm",
       kProcessors,
       {Category::context, Category::data}},
  };
  for (const Row& row : rows) {
    INFO(row.strategy);
    const Lowered alone(
        job_text(1, row.strategy == std::string("fully sharded data") ? "{}" : "{sharding: none}",
                 row.system));
    Lowered l(job_text(kProcessors, row.parallelism, row.system));
    CHECK(std::abs(flops(l) * kProcessors / flops(alone) - 1) < 1e-9);
    // Every tensor rank holds norms and biases, and buffers are whole blocks.
    CHECK(std::abs(held(l) / (row.copies * held(alone)) - 1) < 0.005);
    CHECK(exposed(l, row.communication) > 0);
    l.free_links();
    CHECK(exposed(l, row.communication) == 0);
  }
}
