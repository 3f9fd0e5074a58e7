#include "stage_state.h"

#include <algorithm>

#include "../offload/state_offload.h"
#include "feature.h"
#include "stepcast/base/checked_time.h"

namespace stepcast::lower {

using program::Category;
using program::StreamIndex;

// ---------------------------------------------------------------- units
const std::vector<Unit>& units_of(const Stage& stage, int chunk, int micro_batch) {
  const bool whole =
      !stage.again.keeps_whole.empty() && stage.again.keeps_whole[chunk][micro_batch];
  return whole ? stage.again.whole[chunk] : stage.units[chunk];
}

std::int64_t kept_bytes(const Unit& unit) {
  if (!unit.recomputed) {
    return unit.passes->memory.saved.bytes;
  }
  return unit.keeps_input ? unit.passes->input : 0;
}

std::int64_t weight_inputs(const Stage& stage, const Unit& unit) {
  return stage.passes.splits ? unit.passes->memory.weight_inputs.bytes : 0;
}

bool defers(const Stage& stage, int chunk, std::size_t unit, int micro_batch) {
  return micro_batch < stage.plan.accumulation.deferred_heads &&
         stage.units[static_cast<std::size_t>(chunk)][unit].kind == Unit::Kind::head;
}

bool shares_table(const Stage& stage) {
  const auto& chunks = stage.plan.stages[stage.number];
  using strategy::Chunk;
  return stage.plan.model.tied_embeddings && stage.plan.order.barriers == 0 &&
         std::any_of(chunks.begin(), chunks.end(), [](const Chunk& c) { return c.embedding; }) &&
         std::any_of(chunks.begin(), chunks.end(), [](const Chunk& c) { return c.head; });
}

bool waits_for_embedding(const Stage& stage, int chunk, std::size_t unit) {
  const auto c = static_cast<std::size_t>(chunk);
  return !stage.gradients.tables[c].waiting.blocks.empty() && unit + 1 == stage.units[c].size();
}

Passes& add_passes(Stage& stage, const model::OperatorGraph& graph, const Redone& redone) {
  Passes p = build_passes(graph, stage.context.passes, redone);
  if (stage.context.passes.merge) {
    for (auto* items : {&p.forward, &p.recompute, &p.backward, &p.input_grad, &p.weight_grad}) {
      pace(stage, *items);
      *items = merge(*items, stage.host.paced, *stage.context.blends);
    }
  }
  stage.passes.priced.push_back(std::move(p));
  return stage.passes.priced.back();
}

// ---------------------------------------------------------------- tasks
program::LabelIndex label_of(Stage& stage, std::string_view text) {
  return stage.context.passes.labels->id(text);
}

program::StreamIndex stream_of(const Stage& stage, Role role) {
  switch (role) {
    case kTensorColumn:
      return stage.streams.tensor_column;
    case kContext:
    case kContextInner:
      return stage.streams.context;
    case kExpert:
    case kExpertTensor:
    case kTensorExpert:
      return stage.streams.expert;
    default:
      return stage.streams.tensor;
  }
}

void follow_compute(Stage& stage, program::StreamIndex stream) {
  if (stage.builder.mark(stage.streams.compute).position > 0) {
    stage.builder.wait(stream, stage.builder.mark(stage.streams.compute));
  } else {
    stage.builder.wait_previous_step(stream, stage.streams.compute);
  }
}

// A framework's own work (Python, autograd) stands between the launches of a pass, not in front of
// them: behind a wait the device idles for the first operator alone.
void pace(Stage& stage, const std::vector<Item>& items) {
  std::int64_t launches = 0;
  for (const Item& item : items) {
    launches += item.kernels + item.more + item.graphed;
  }
  stage.host.paced = stage.host.launch + (launches > 0 ? stage.host.overhead / launches : Time{0});
}

namespace {

void issue_all(Stage& stage, const std::vector<Item>& items) {
  for (const Item& item : items) {
    issue(stage, item);
  }
}

// Whether an item is a task or a wait, the same at each time but for its ring key.
bool recurs(const Item& item) {
  return item.kind != Item::Kind::model && item.kind != Item::Kind::tile;
}

Replayed first_replayed(Stage& stage, const std::vector<Item>& items) {
  pace(stage, items);
  Replayed out{stage.host.paced, std::nullopt, 0};
  if (std::all_of(items.begin(), items.end(), recurs)) {
    out.tasks = Builder::part_of(stage.builder);
    std::swap(*out.tasks, stage.builder);
    std::swap(out.ring_keys, stage.streams.ring_key);
    issue_all(stage, items);
    std::swap(out.ring_keys, stage.streams.ring_key);
    std::swap(*out.tasks, stage.builder);
  }
  return out;
}

}  // namespace

void replay(Stage& stage, const std::vector<Item>& items) {
  auto& known = stage.passes.replayed;
  auto at = known.find(&items);
  const bool again = at != known.end();
  if (!again) {
    at = known.emplace(&items, first_replayed(stage, items)).first;
  }
  stage.host.paced = at->second.paced;
  if (at->second.tasks) {
    stage.builder.append(*at->second.tasks, again, stage.streams.ring_key);
    stage.streams.ring_key += at->second.ring_keys;
  } else {
    issue_all(stage, items);
  }
}

void issue(Stage& stage, const Item& item) {
  switch (item.kind) {
    case Item::Kind::kernel:
      stage.builder
          .kernel(stage.streams.compute, item.duration, item.curve, item.category, item.label,
                  stage.host.paced * item.kernels, item.slowdown)
          .launches = static_cast<std::uint16_t>(item.kernels + item.more);
      stage.builder.host_work(stage.host.paced * item.more);
      break;
    case Item::Kind::collective:
      stage.builder.collective(stage.streams.compute, item.role, item.price, item.category,
                               Category::stall, item.label, stage.host.paced * item.kernels);
      break;
    case Item::Kind::async: {
      const auto stream = stream_of(stage, item.role);
      stage.builder.wait(stream, stage.builder.mark(stage.streams.compute));
      stage.builder.collective(stream, item.role, item.price, item.category, Category::stall,
                               item.label, stage.host.paced * item.kernels);
      break;
    }
    case Item::Kind::ring: {
      const auto stream = stream_of(stage, item.role);
      const bool tensor = item.role == kTensor;
      const std::uint32_t key = stage.streams.ring_key++;
      stage.builder.wait(stream, stage.builder.mark(stage.streams.compute));
      program::Task& task = stage.builder.exchange(
          stream,
          {{program::ChannelRole::at(tensor ? kSendTensor : kSendContext), key, item.price, true},
           {program::ChannelRole::at(tensor ? kReceiveTensor : kReceiveContext), key, item.price,
            false}},
          item.label, stage.host.paced * item.kernels);
      task.category = item.category;
      task.wait_category = Category::stall;
      break;
    }
    case Item::Kind::join:
      stage.builder.wait(stage.streams.compute, stage.builder.mark(stream_of(stage, item.role)));
      break;
    case Item::Kind::sync:
      stage.builder.host_sync(stage.builder.mark(stage.streams.compute));
      break;
    case Item::Kind::host:
      stage.builder.host_work(item.duration);
      break;
    case Item::Kind::model:
      each<&Feature::behind_loss>(stage);
      break;
    case Item::Kind::tile:
      each<&Feature::use_tile>(stage, item);
      break;
  }
}

void memory_kernel(Stage& stage, double bytes, cost::MemoryOp op, Category category,
                   const char* label, std::int64_t launches) {
  if (bytes < 1) {
    return;
  }
  const cost::Priced priced =
      stage.context.passes.kernels->memory(op, Bytes(static_cast<std::int64_t>(bytes)));
  stage.builder
      .kernel(stage.streams.compute, priced.time, priced.curve, category, label_of(stage, label),
              checked_product(launches, stage.host.launch))
      .launches = static_cast<std::uint16_t>(std::min<std::int64_t>(launches, 0xffff));
}

void tensor_collective(Stage& stage, cost::Collective op, std::int64_t bytes, Category category,
                       const char* label) {
  stage.builder.collective(stage.streams.compute, kTensor,
                           stage.context.passes.book->key(kTensor, op, bytes), category,
                           Category::stall, label_of(stage, label), stage.host.launch);
}

void data_kernel(Stage& stage, StreamIndex stream, double bytes, cost::MemoryOp op,
                 const char* label) {
  if (bytes < 1) {
    return;
  }
  const cost::Priced priced =
      stage.context.passes.kernels->memory(op, Bytes(static_cast<std::int64_t>(bytes)));
  stage.builder.kernel(stream, priced.time, priced.curve, Category::compute, label_of(stage, label),
                       stage.host.launch);
}

void data_collective(Stage& stage, StreamIndex stream, Role role, cost::Collective op, double bytes,
                     const char* what) {
  const auto count = static_cast<std::int64_t>(bytes);
  if (count <= 0) {
    return;
  }
  stage.builder.collective(stream, role, stage.context.passes.book->key(role, op, count),
                           Category::data, Category::stall,
                           label_of(stage, std::string(what) + " " + cost::to_string(op)),
                           stage.host.launch);
}

// ---------------------------------------------------------------- data parallelism
bool travels(const Stage& stage) {
  const strategy::Offload& o = stage.plan.offload;
  return stage.plan.data_ranks() > 1 ||
         (stage.parameters.trained.expert > 0 && stage.plan.expert_data > 1) ||
         o.parameters.share() > 0 || o.gradients.share() > 0 || stage.plan.parameter_gather.alone;
}

bool wraps(const Stage& stage) { return travels(stage) && wraps_units(stage.plan); }

bool last_backward(const Stage& stage, int chunk) {
  const Turns& turns = stage.passes.turns[static_cast<std::size_t>(chunk)];
  return turns.backwards_ended + 1 >= turns.backwards;
}

bool reduces(const Stage& stage, int chunk) {
  if (!travels(stage)) {
    return false;
  }
  return reduces_each_pass(stage.plan) || last_backward(stage, chunk);
}

}  // namespace stepcast::lower
