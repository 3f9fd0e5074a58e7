// One pipeline stage, from its plan to its program: its units, the slots of its order, and the
// order in which features hear of them.
#include "stage.h"

#include <fmt/format.h>

#include <algorithm>

#include "../pipeline/pipeline.h"
#include "feature_list.h"
#include "slots.h"
#include "stage_driver.h"
#include "units.h"

namespace stepcast::lower {

using schedule::Slot;

namespace {

// Streams that the layers ahead of `layer` hand on. With attention residuals those of earlier
// blocks go along.
std::int64_t streams_before(const strategy::Plan& plan, int layer) {
  const strategy::Model& m = plan.model;
  return m.residual_block > 0 ? 1 + model::layer_kind(m, layer).blocks : model::stream_count(m);
}

std::int64_t message_of(const strategy::Plan& plan, std::int64_t streams) {
  const std::int64_t tokens =
      plan.shard.sequences * plan.shard.sequence_length / plan.shard.context;
  const double bytes = static_cast<double>(tokens * plan.model.hidden * streams) *
                       bytes_per_element(plan.style.dtype);
  const bool split = plan.shard.sequence_parallel || plan.stage_transport.scatter_gather;
  return static_cast<std::int64_t>(bytes / (split ? plan.shard.tensor : 1));
}

template <class See>
void for_each_boundary(const strategy::Plan& plan, See see) {
  for (const auto& chunks : plan.stages) {
    for (const strategy::Chunk& chunk : chunks) {
      if (chunk.stage > 0) {
        see(chunk.stage, streams_before(plan, chunk.first_layer));
      }
    }
  }
}

}  // namespace

std::int64_t message_bytes(const strategy::Plan& plan) {
  std::int64_t most = model::stream_count(plan.model);
  if (plan.model.residual_block == 0) {
    return message_of(plan, most);
  }
  for_each_boundary(plan, [&](int, std::int64_t streams) { most = std::max(most, streams); });
  return message_of(plan, most);
}

std::int64_t message_bytes_at(const strategy::Plan& plan, int stage) {
  std::int64_t bytes = message_bytes(plan);
  if (plan.model.residual_block == 0) {
    return bytes;
  }
  for_each_boundary(plan, [&](int at, std::int64_t streams) {
    bytes = at == stage ? message_of(plan, streams) : bytes;
  });
  return bytes;
}

namespace {

int senders_of_whole(const strategy::Plan& plan) {
  const bool whole = plan.stage_transport.whole_gradients && !plan.shard.sequence_parallel;
  return whole ? plan.shard.tensor : 1;
}

}  // namespace

std::int64_t gradient_message_bytes(const strategy::Plan& plan) {
  return message_bytes(plan) * senders_of_whole(plan);
}

std::int64_t gradient_message_bytes_at(const strategy::Plan& plan, int stage) {
  return message_bytes_at(plan, stage) * senders_of_whole(plan);
}

namespace {

HostPace pace_of(const StageContext& context) {
  const strategy::HostModel& host = context.plan->host;
  const cost::Launch measured = context.passes.kernels->launch();
  if (host.cuda_graph) {
    return {measured.graph, Time{0}, Time{0}};
  }
  return {std::max(host.launch, measured.host), host.layer_overhead, Time{0}};
}

void make_streams(Stage& stage) {
  if (stage.plan.host.waits_each_launch) {
    stage.builder.wait_for_launches();
  }
  stage.streams.compute = stage.builder.stream("compute");
  if (stage.plan.grid.tensor > 1) {
    stage.streams.tensor = stage.builder.stream("tensor");
  }
  if (stage.plan.grid.tensor > 1 && stage.plan.tensor_parallel.kind != TensorKind::one_d) {
    stage.streams.tensor_column = stage.builder.stream("tensor column");
  }
  if (stage.plan.grid.context > 1) {
    stage.streams.context = stage.builder.stream("context");
  }
  if (stage.plan.shard.expert > 1 || stage.plan.shard.expert_tensor > 1) {
    stage.streams.expert = stage.builder.stream("expert");
  }
  each<&Feature::make_streams>(stage);
}

// A step too long to hold is refused before its units are made, which keep something for every
// micro-batch, and again as tasks come, pass by pass.
void check_size(const Stage& stage) {
  std::int64_t layers = 0;
  for (const strategy::Chunk& chunk : stage.plan.stages[static_cast<std::size_t>(stage.number)]) {
    layers += chunk.layers;
  }
  const auto most = static_cast<std::int64_t>(stage.context.most_tasks);
  const std::int64_t micro_batches = stage.plan.micro_batches;
  const auto tasks = static_cast<std::int64_t>(stage.builder.program.tasks.size());
  if (tasks <= most && (layers == 0 || micro_batches <= most / layers)) {
    return;
  }
  const bool many_layers = layers > micro_batches;
  throw TooLarge(
      many_layers ? "model.layers" : "workload.global_batch",
      fmt::format(
          "{} micro-batches of {} layers on stage {} are more tasks than a forecast holds; "
          "expected {}",
          micro_batches, layers, stage.number,
          many_layers ? "fewer layers" : "a smaller global batch, or larger micro-batches"));
}

void run_slots(Stage& stage) {
  const auto& slots = slots_of(stage);
  const bool in_pairs = transport_of(stage.plan) == Transport::any_order;
  for (std::size_t slot = 0; slot < slots.size(); ++slot) {
    check_size(stage);
    const bool pair = in_pairs && slots[slot].with_next && slot + 1 < slots.size();
    const std::size_t last = slot + (pair ? 1 : 0);
    each<&Feature::before_slot>(stage, slot, last);
    const bool ran =
        std::any_of(stage.features.begin(), stage.features.end(),
                    [&](const auto& feature) { return feature->runs(stage, slots[slot]); });
    if (ran) {
      continue;
    }
    each<&Feature::before_pass>(stage, slot);
    if (pair) {
      each<&Feature::before_pass>(stage, last);
      run_pair(stage, slots[slot], slots[last]);
      each<&Feature::after_pass>(stage, slot);
    } else {
      run_slot(stage, slots[slot]);
    }
    each<&Feature::after_pass>(stage, last);
    slot = last;
  }
  each<&Feature::after_slots>(stage);
}

void end_step(Stage& stage) {
  constexpr int kNoMicroBatch = 0xffff;
  stage.builder.set_micro_batch(kNoMicroBatch, 0);
  for (const StepEnd part : {StepEnd::reduce, StepEnd::share, StepEnd::prepare, StepEnd::norm,
                             StepEnd::update, StepEnd::updated, StepEnd::gather, StepEnd::clear}) {
    each<&Feature::end_of_step>(stage, part);
  }
}

}  // namespace

void check_pieces(const StageContext& context, double pieces, const char* key) {
  if (pieces > static_cast<double>(context.most_tasks)) {
    throw TooLarge(key, fmt::format("{:.3g} pieces of a rank's states are more than a forecast "
                                    "holds; expected larger ones",
                                    pieces));
  }
}

Stage make_stage(const StageContext& context, int number, ChainOrders orders) {
  Stage stage{context, *context.plan, number};
  stage.host = pace_of(context);
  stage.builder.slowdown_row = context.slowdown_row;
  if (context.like != nullptr) {
    stage.builder.reserve(*context.like);
  }
  stage.again.orders = std::move(orders);
  for (const FeatureEntry& entry : context.features.empty() ? all_features() : context.features) {
    stage.features.push_back(entry.make());
  }
  return stage;
}

program::Program run_stage(Stage& stage) {
  check_size(stage);
  make_units(stage);
  count_passes(stage);
  make_streams(stage);
  stage.gradients.pending.assign(stage.units.size(), {});
  each<&Feature::make_states>(stage);
  each<&Feature::make_workspaces>(stage);
  each<&Feature::before_step>(stage);
  run_slots(stage);
  end_step(stage);
  program::Program out = stage.builder.finish();
  out.name = "stage " + std::to_string(stage.number);
  out.stage = stage.number;
  out.communicator_roles = kRoles;
  out.channel_roles = kChannelRoles;
  return out;
}

}  // namespace stepcast::lower
