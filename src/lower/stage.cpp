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

program::Program lower_stage(const StageContext& context, int stage) {
  return StageBuilder(context, stage).build();
}

StageBuilder::StageBuilder(const StageContext& context, int stage)
    : context_(context), plan_(*context.plan), job_(context.plan->job), stage_(stage) {
  const cost::Launch measured = context.passes.kernels->launch();
  launch_ = job_.kernels.cuda_graph ? measured.graph.count()
                                    : std::max(job_.system.launch.count(), measured.host.count());
}

program::Program StageBuilder::build() {
  b_.slowdown_row = context_.slowdown_row;
  make_units();
  make_streams();
  make_persistent_buffers();
  gather_parameters_at_start();
  if (plan_.grid.pipeline == 1) {
    run_local();
  } else if (!plan_.interleaved) {
    run_blocking();
  } else if (job_.parallelism.overlap.pipeline) {
    run_overlapped();
  } else {
    run_interleaved_blocking();
  }
  finish_step();
  program::Program out = b_.finish();
  out.outside_allocator = outside_allocator();
  out.name = "stage " + std::to_string(stage_);
  out.stage = stage_;
  out.communicator_roles = kRoles;
  out.channel_roles = kChannelRoles;
  return out;
}

void StageBuilder::make_units() {
  const auto& recompute = job_.memory.recompute;
  using Kind = job::Recompute::Kind;
  const bool selective = recompute.kind == Kind::selective;
  auto add_passes = [&](const model::OperatorGraph& graph, bool core_again) {
    Passes p = build_passes(graph, context_.passes, core_again);
    if (context_.passes.merge) {
      p.forward = merge(p.forward, launch_, *context_.blends);
      p.recompute = merge(p.recompute, launch_, *context_.blends);
      p.backward = merge(p.backward, launch_, *context_.blends);
      p.input_grad = merge(p.input_grad, launch_, *context_.blends);
      p.weight_grad = merge(p.weight_grad, launch_, *context_.blends);
    }
    passes_.push_back(std::move(p));
  };
  passes_.reserve(context_.layers->size() + 2);
  const auto& chunks = plan_.stages[stage_];
  std::map<model::LayerKind, const Passes*> layers;
  units_.resize(chunks.size());
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    auto& units = units_[c];
    if (chunks[c].embedding) {
      add_passes(*context_.embedding, false);
      units.push_back(
          {Unit::Kind::embedding, static_cast<int>(c), -1, &passes_.back(), false, false});
    }
    for (int n = 0; n < chunks[c].layers; ++n) {
      const int layer = chunks[c].first_layer + n;
      const model::LayerKind kind = model::layer_kind(job_.model, layer);
      const Passes*& passes = layers[kind];
      if (passes == nullptr) {
        add_passes(context_.layers->at(kind), selective);
        passes = &passes_.back();
      }
      Unit unit{Unit::Kind::layer, static_cast<int>(c), layer, passes, false, false};
      switch (recompute.kind) {
        case Kind::none:
        case Kind::selective:
          break;
        case Kind::full:
          unit.recomputed = unit.keeps_input = true;
          break;
        case Kind::every:
          unit.recomputed = unit.keeps_input = layer % std::max(1, recompute.layers) == 0;
          break;
        case Kind::uniform:
          unit.recomputed = true;
          unit.keeps_input = n % std::max(1, recompute.layers) == 0;
          break;
        case Kind::block:
          unit.recomputed = unit.keeps_input = n < recompute.layers;
          break;
      }
      units.push_back(unit);
    }
    if (chunks[c].head) {
      add_passes(*context_.head, false);
      if (job_.model.tied_embeddings && plan_.grid.pipeline == 1) {
        // One table serves both ends.
        passes_.back().parameters -= plan_.vocab / plan_.grid.tensor * job_.model.hidden;
      }
      units.push_back({Unit::Kind::head, static_cast<int>(c), -1, &passes_.back(), false, false});
    }
  }
  activations_.resize(units_.size());
  sharded_.resize(units_.size());
  parameter_ready_.resize(units_.size());
  pending_elements_.assign(units_.size(), 0);
  for (std::size_t c = 0; c < units_.size(); ++c) {
    activations_[c].assign(units_[c].size(),
                           std::vector<std::uint32_t>(plan_.micro_batches, kNone));
    sharded_[c].resize(units_[c].size());
    parameter_ready_[c].resize(units_[c].size());
    for (const Unit& u : units_[c]) {
      parameters_.total += u.passes->parameters;
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
  if (plan_.grid.data > 1) {
    if (fully_sharded()) {
      gather_ = b_.stream("all-gather");
      data_ = b_.stream("reduce-scatter");
      if (plan_.replicas > 1) {
        replicas_ = b_.stream("all-reduce");
      }
    } else {
      data_ = b_.stream("data");
    }
  }
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

std::uint32_t& StageBuilder::activation(int chunk, std::size_t unit, int micro_batch) {
  return activations_[chunk][unit][micro_batch];
}

void StageBuilder::run_slot(const schedule::Slot& slot) {
  if (slot.pass == schedule::Pass::forward) {
    forward(slot.chunk, slot.micro_batch);
  } else {
    backward(slot.chunk, slot.micro_batch);
  }
}

void StageBuilder::forward(int chunk, int micro_batch) {
  b_.set_micro_batch(micro_batch, chunk);
  const std::uint32_t label = context_.passes.labels->id("activations");
  const std::uint32_t temporary = context_.passes.labels->id("forward temporaries");
  if (micro_batch == 0) {
    b_.release(kept_inputs_[chunk]);
  }
  for (std::size_t u = 0; u < units_[chunk].size(); ++u) {
    const Unit& unit = units_[chunk][u];
    before_forward(chunk, u, micro_batch);
    b_.host_work(job_.system.layer_overhead.count());
    activation(chunk, u, micro_batch) =
        b_.allocate(kept_bytes(unit), MemoryCategory::activations, label);
    const std::int64_t transient =
        unit.recomputed ? unit.passes->saved : unit.passes->forward_temporary;
    const std::uint32_t buffer = b_.allocate(transient, MemoryCategory::activations, temporary);
    replay(unit.passes->forward);
    b_.release(buffer);
    after_forward(chunk, u);
  }
}

// Redoes the forward pass of the group of units that ends at `unit`.
void StageBuilder::recompute(int chunk, std::size_t unit) {
  auto& units = units_[chunk];
  std::size_t first = unit;
  while (!units[first].keeps_input) {
    --first;
  }
  const std::uint32_t label = context_.passes.labels->id("recomputed activations");
  for (std::size_t u = first; u <= unit; ++u) {
    b_.host_work(job_.system.layer_overhead.count());
    const std::int64_t more = units[u].passes->saved - kept_bytes(units[u]);
    const std::uint32_t fresh =
        b_.allocate(std::max<std::int64_t>(more, 0), MemoryCategory::activations, label);
    replay(units[u].passes->recompute);
    recomputed_.push_back({u, fresh});
  }
}

void StageBuilder::backward(int chunk, int micro_batch) {
  b_.set_micro_batch(micro_batch, chunk);
  const std::uint32_t label = context_.passes.labels->id("backward temporaries");
  auto& units = units_[chunk];
  for (std::size_t u = units.size(); u-- > 0;) {
    const Unit& unit = units[u];
    before_backward(chunk, u);
    const bool group_end = unit.recomputed && (u + 1 == units.size() || !units[u + 1].recomputed ||
                                               units[u + 1].keeps_input);
    if (group_end) {
      recompute(chunk, u);
    }
    b_.host_work(job_.system.layer_overhead.count());
    const std::uint32_t buffer =
        b_.allocate(unit.passes->backward_temporary, MemoryCategory::activations, label);
    replay(unit.passes->backward);
    b_.release(buffer);
    b_.release(activation(chunk, u, micro_batch));
    while (!recomputed_.empty() && recomputed_.back().first == u) {
      b_.release(recomputed_.back().second);
      recomputed_.pop_back();
    }
    after_backward(chunk, u, micro_batch);
  }
  end_of_backward(chunk, micro_batch);
  if (micro_batch + 1 == plan_.micro_batches) {
    b_.allocate(kept_inputs_[chunk]);
  }
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

void StageBuilder::replay(const std::vector<Item>& items) {
  for (const Item& item : items) {
    switch (item.kind) {
      case Item::Kind::kernel:
        b_.kernel(compute_, item.duration, item.curve, item.category, item.label,
                  launch_ * item.kernels, item.slowdown);
        b_.host_work(launch_ * item.more);
        break;
      case Item::Kind::collective:
        b_.collective(compute_, item.role, item.price, item.category, Category::stall, item.label,
                      launch_);
        break;
      case Item::Kind::async: {
        const auto stream = stream_of(item.role);
        b_.wait(stream, b_.mark(compute_));
        b_.collective(stream, item.role, item.price, item.category, Category::stall, item.label,
                      launch_);
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
                        item.label, launch_);
        task.category = item.category;
        task.wait_category = Category::stall;
        break;
      }
      case Item::Kind::join:
        b_.wait(compute_, b_.mark(stream_of(item.role)));
        break;
    }
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
            context_.passes.labels->id(label), launch_ * launches);
}

void StageBuilder::tensor_collective(cost::Collective op, std::int64_t bytes, Category category,
                                     const char* label) {
  b_.collective(compute_, kTensor, context_.passes.book->key(kTensor, op, bytes), category,
                Category::stall, context_.passes.labels->id(label), launch_);
}

}  // namespace stepcast::lower
