#include "stage.h"

#include <algorithm>

#include "stage_builder.h"

namespace stepcast::lower {

using program::Category;
using program::kNone;
using program::MemoryCategory;

std::int64_t message_bytes(const strategy::Plan& plan) {
  const std::int64_t tokens =
      plan.shard.sequences * plan.shard.sequence_length / plan.shard.context;
  const double bytes = static_cast<double>(tokens * plan.job.model.hidden) *
                       job::bytes_per_element(plan.style.dtype);
  const bool split = plan.shard.sequence_parallel || plan.job.system.scatter_gather_p2p;
  return static_cast<std::int64_t>(bytes / (split ? plan.shard.tensor : 1));
}

StageBuilder::StageBuilder(const StageContext& context, int stage)
    : context_(context), plan_(*context.plan), job_(context.plan->job), stage_(stage) {
  const cost::Launch measured = context.passes.kernels->launch();
  launch_ = job_.kernels.cuda_graph ? measured.graph.count()
                                    : std::max(job_.system.launch.count(), measured.host.count());
  overhead_ = job_.kernels.cuda_graph ? 0 : job_.system.layer_overhead.count();
}

program::Program StageBuilder::build() {
  b_.slowdown_row = context_.slowdown_row;
  make_units();
  count_passes();
  make_streams();
  make_persistent_buffers();
  plan_offload();
  gather_parameters_at_start();
  if (plan_.grid.pipeline == 1 && !strategy::pairs_passes(job_)) {
    run_local();
  } else if (!megatron_forms()) {
    run_order();
  } else if (!plan_.interleaved) {
    run_blocking();
  } else if (job_.parallelism.overlap.pipeline) {
    run_overlapped();
  } else {
    run_interleaved_blocking();
  }
  finish_step();
  program::Program out = b_.finish();
  out.name = "stage " + std::to_string(stage_);
  out.stage = stage_;
  out.communicator_roles = kRoles;
  out.channel_roles = kChannelRoles;
  return out;
}

void StageBuilder::add_passes(const model::OperatorGraph& graph, const Redone& redone) {
  Passes p = build_passes(graph, context_.passes, redone);
  if (context_.passes.merge) {
    for (auto* items : {&p.forward, &p.recompute, &p.backward, &p.input_grad, &p.weight_grad}) {
      pace(*items);
      *items = merge(*items, paced_, *context_.blends);
    }
  }
  passes_.push_back(std::move(p));
}

// One table serves both ends: where they are on one rank it stands once.
bool StageBuilder::shares_table() const {
  const auto& chunks = plan_.stages[stage_];
  using strategy::Chunk;
  return job_.model.tied_embeddings && plan_.order.barriers == 0 &&
         std::any_of(chunks.begin(), chunks.end(), [](const Chunk& c) { return c.embedding; }) &&
         std::any_of(chunks.begin(), chunks.end(), [](const Chunk& c) { return c.head; });
}

void StageBuilder::make_units() {
  passes_.reserve(2 * context_.layers->size() + 4);
  const bool split = plan_.order.barriers > 0;  // the vocabulary's rows are with all stages
  const auto& chunks = plan_.stages[stage_];
  std::map<model::LayerKind, std::pair<const Passes*, const Passes*>> layers;  // and of whole ones
  const bool some_whole = job_.memory.whole_micro_batches > 0;
  units_.resize(chunks.size());
  std::vector<std::vector<const Passes*>> whole_passes;  // by chunk and layer
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    auto& units = units_[c];
    whole_passes.emplace_back();
    if (chunks[c].embedding) {
      add_passes(split ? without_vocabulary(*context_.embedding) : *context_.embedding, {});
      units.push_back(
          {Unit::Kind::embedding, static_cast<int>(c), -1, &passes_.back(), false, false});
    }
    for (int n = 0; n < chunks[c].layers; ++n) {
      const int layer = chunks[c].first_layer + n;
      const model::LayerKind kind = model::layer_kind(job_.model, layer);
      auto& [passes, whole] = layers[kind];
      if (passes == nullptr) {
        const model::OperatorGraph& graph = context_.layers->at(kind);
        const Redone redone = redone_of(plan_, graph);
        add_passes(graph, redone);
        passes = whole = &passes_.back();
        if (some_whole && !redone.empty()) {
          add_passes(graph, {});
          whole = &passes_.back();
        }
      }
      units.push_back({Unit::Kind::layer, static_cast<int>(c), layer, passes, false, false});
      whole_passes[c].push_back(whole);
    }
    if (chunks[c].head) {
      add_passes(split ? without_vocabulary(*context_.head) : *context_.head, {});
      if (shares_table()) {
        const std::int64_t table = plan_.vocab / plan_.grid.tensor * job_.model.hidden;
        if (job_.workload.finetune.kind != job::Finetune::Kind::none) {
          passes_.back().frozen_bytes -= static_cast<std::int64_t>(
              static_cast<double>(table) * job::bytes_per_element(job_.memory.dtypes.parameters));
        } else {
          passes_.back().parameters -= table;
        }
        std::erase_if(passes_.back().arrays, [&](const Array& a) { return a.elements == table; });
      }
      units.push_back({Unit::Kind::head, static_cast<int>(c), -1, &passes_.back(), false, false});
    }
  }
  if (split) {
    add_vocabulary_rows();
  }
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    mark_recomputed(static_cast<int>(c));
  }
  if (some_whole) {
    whole_ = units_;
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      std::size_t n = 0;
      for (Unit& u : whole_[c]) {
        u.recomputed = u.keeps_input = false;
        u.again.clear();
        u.passes = u.kind == Unit::Kind::layer ? whole_passes[c][n++] : u.passes;
      }
    }
    choose_whole();
  }
  kept_.resize(units_.size());
  for (std::size_t c = 0; c < units_.size(); ++c) {
    kept_[c].assign(units_[c].size(), std::vector<Kept>(plan_.micro_batches));
    for (const Unit& u : units_[c]) {
      parameters_.total += u.passes->parameters;
      parameters_.expert += u.passes->expert_parameters;
      parameters_.frozen_bytes += u.passes->frozen_bytes;
      parameters_.replicated += u.passes->replicated;
      parameters_.tensors += u.passes->tensors;
    }
  }
}

void StageBuilder::make_streams() {
  compute_ = b_.stream("compute");
  if (plan_.grid.tensor > 1) {
    tensor_ = b_.stream("tensor");
  }
  if (plan_.grid.tensor > 1 && plan_.job.parallelism.tensor_kind != job::TensorKind::one_d) {
    tensor_column_ = b_.stream("tensor column");
  }
  if (plan_.grid.context > 1) {
    context_stream_ = b_.stream("context");
  }
  if (plan_.shard.expert > 1 || plan_.shard.expert_tensor > 1) {
    expert_stream_ = b_.stream("expert");
  }
  make_data_parallel();
  make_host_streams();
  if (plan_.interleaved && job_.parallelism.overlap.pipeline) {
    send_forward_ = b_.stream("send forward");
    receive_forward_ = b_.stream("receive forward");
    send_backward_ = b_.stream("send backward");
    receive_backward_ = b_.stream("receive backward");
  }
}

std::int64_t StageBuilder::kept_bytes(const Unit& unit) const {
  if (!unit.recomputed) {
    return unit.passes->saved;
  }
  return unit.keeps_input ? unit.passes->input : 0;
}

// Of a unit's activations, what only the weight gradient still reads.
std::int64_t StageBuilder::weight_inputs(const Unit& unit) const {
  return splits_ ? unit.passes->weight_inputs : 0;
}

// A role's own stream: NCCL communicators of one kind of parallelism share one.
program::StreamIndex StageBuilder::stream_of(Role role) const {
  switch (role) {
    case kTensorColumn:
      return tensor_column_;
    case kContext:
    case kContextInner:
      return context_stream_;
    case kExpert:
    case kExpertTensor:
    case kTensorExpert:
      return expert_stream_;
    default:
      return tensor_;
  }
}

// A framework's own work (Python, autograd) stands between the launches of a pass, not in front of
// them: behind a wait the device idles for the first operator alone.
void StageBuilder::pace(const std::vector<Item>& items) {
  std::int64_t launches = 0;
  for (const Item& item : items) {
    launches += item.kernels + item.more;
  }
  paced_ = launch_ + (launches > 0 ? overhead_ / launches : 0);
}

void StageBuilder::replay(const std::vector<Item>& items) {
  pace(items);
  for (const Item& item : items) {
    issue(item);
  }
}

void StageBuilder::issue(const Item& item) {
  switch (item.kind) {
    case Item::Kind::kernel:
      b_.kernel(compute_, item.duration, item.curve, item.category, item.label,
                paced_ * item.kernels, item.slowdown)
          .launches = static_cast<std::uint16_t>(item.kernels + item.more);
      b_.host_work(paced_ * item.more);
      break;
    case Item::Kind::collective:
      b_.collective(compute_, item.role, item.price, item.category, Category::stall, item.label,
                    paced_ * item.kernels);
      break;
    case Item::Kind::async: {
      const auto stream = stream_of(item.role);
      b_.wait(stream, b_.mark(compute_));
      b_.collective(stream, item.role, item.price, item.category, Category::stall, item.label,
                    paced_ * item.kernels);
      break;
    }
    case Item::Kind::ring: {
      const auto stream = stream_of(item.role);
      const bool tensor = item.role == kTensor;
      const std::uint32_t key = ring_key_++;
      b_.wait(stream, b_.mark(compute_));
      program::Task& task =
          b_.exchange(stream,
                      {{tensor ? kSendTensor : kSendContext, key, item.price, true},
                       {tensor ? kReceiveTensor : kReceiveContext, key, item.price, false}},
                      item.label, paced_ * item.kernels);
      task.category = item.category;
      task.wait_category = Category::stall;
      break;
    }
    case Item::Kind::join:
      b_.wait(compute_, b_.mark(stream_of(item.role)));
      break;
    case Item::Kind::sync:
      b_.host_sync(b_.mark(compute_));
      break;
    case Item::Kind::host:
      b_.host_work(item.duration);
      break;
    case Item::Kind::tile:
      next_tile(item);
      break;
  }
}

void StageBuilder::memory_kernel(double bytes, cost::MemoryOp op, Category category,
                                 const char* label, int launches) {
  if (bytes < 1) {
    return;
  }
  const cost::Priced priced =
      context_.passes.kernels->memory(op, Bytes(static_cast<std::int64_t>(bytes)));
  b_.kernel(compute_, priced.time.count(), priced.curve, category,
            context_.passes.labels->id(label), launch_ * launches)
      .launches = static_cast<std::uint16_t>(std::min(launches, 0xffff));
}

void StageBuilder::tensor_collective(cost::Collective op, std::int64_t bytes, Category category,
                                     const char* label) {
  b_.collective(compute_, kTensor, context_.passes.book->key(kTensor, op, bytes), category,
                Category::stall, context_.passes.labels->id(label), launch_);
}

}  // namespace stepcast::lower
