// When gradients and parameters travel between data-parallel ranks, and among whom. Buckets of
// whole states and of ZeRO-1 and 2 are in buckets.cpp, fully sharded units in fully_sharded.cpp,
// the step's end in optimizer.cpp.
#include "data_parallel.h"

#include <algorithm>

#include "stage_builder.h"

namespace stepcast::lower {

using program::Category;
using program::StreamIndex;
using strategy::DataComm;

int node_share(const strategy::Plan& plan) {
  const int gpus = plan.job.cluster.node.gpus;
  std::vector<int> ranks;
  for (int d = 0; d < plan.grid.data; ++d) {
    for (int c = 0; c < plan.grid.context; ++c) {
      ranks.push_back(cluster::rank_at(plan.grid, {0, c, d, 0}));
    }
  }
  std::sort(ranks.begin(), ranks.end());
  const int shards = plan.data_comm == DataComm::all_reduce ? plan.data_ranks() : plan.shard_ranks;
  ranks.resize(static_cast<std::size_t>(std::min<int>(shards, static_cast<int>(ranks.size()))));
  const auto local = static_cast<int>(std::count_if(
      ranks.begin(), ranks.end(), [&](int r) { return r / gpus == ranks.front() / gpus; }));
  return local > 0 && static_cast<int>(ranks.size()) % local == 0 ? local : 1;
}

Sharing StageBuilder::sharing(bool expert) const {
  const bool whole = plan_.data_comm == DataComm::all_reduce || plan_.data_comm == DataComm::none;
  if (expert) {
    const int shards = whole ? plan_.expert_data : strategy::expert_shards(plan_);
    return {kExpertData, kExpertReplicas, shards, plan_.expert_data / shards};
  }
  const int shards = whole ? plan_.data_ranks() : plan_.shard_ranks;
  return {kData, kReplicas, shards, plan_.data_ranks() / shards};
}

bool StageBuilder::travels() const {
  const job::Offload& o = job_.memory.offload;
  return plan_.data_ranks() > 1 || (parameters_.expert > 0 && plan_.expert_data > 1) ||
         share_away(o.parameters) > 0 || share_away(o.gradients) > 0;
}

bool wraps_units(const strategy::Plan& plan) {
  // FSDP's SHARD_GRAD_OP is ZeRO-2 by units: parameters are sharded between steps. FairScale's
  // ShardedDDP is not.
  const auto& system = plan.job.system;
  return plan.data_comm == DataComm::shard_all ||
         (plan.data_comm == DataComm::shard_grads && system.family == job::System::Family::fsdp2 &&
          !system.reduce_to_owner);
}

bool reduces_each_pass(const strategy::Plan& plan) {
  // ZeRO-2 and DeepSpeed's ZeRO-3 have nowhere to keep whole gradients (engine.py refuses no_sync).
  // FSDP's units reduce behind each backward pass unless no_sync is asked for, with stages once
  // (torch.distributed.pipelining holds requires_gradient_sync off until the last).
  const bool each = plan.job.parallelism.reduce_each;
  if (!wraps_units(plan)) {
    return each || plan.data_comm == DataComm::shard_grads;
  }
  const bool torch = plan.job.system.family == job::System::Family::fsdp2;
  return plan.grid.pipeline == 1 ? each || !torch : each && !torch;
}

bool accumulates_whole(const strategy::Plan& plan) {
  const bool shards =
      plan.data_comm == DataComm::shard_grads || plan.data_comm == DataComm::shard_all;
  return !shards || !reduces_each_pass(plan);
}

bool StageBuilder::wraps() const { return wraps_units(plan_); }

bool StageBuilder::reduce_beside() const {
  if (plan_.grid.pipeline > 1 && !job_.system.overlap_with_pipeline) {
    return false;
  }
  return job_.parallelism.overlap.grad_reduce || (wraps() && job_.system.zero3_overlaps);
}

bool StageBuilder::gather_beside() const {
  return job_.parallelism.overlap.param_gather || (wraps() && job_.system.zero3_overlaps);
}

void StageBuilder::make_data_parallel() {
  auto& s = data_parallel_;
  const std::size_t chunks = units_.size();
  s.forwards.assign(chunks, 0);
  s.backwards.assign(chunks, 0);
  s.expected.assign(chunks, 0);
  s.pending.assign(chunks, {});
  s.bucket_sent.assign(chunks, false);
  for (const schedule::Slot& slot : plan_.order.ranks[stage_]) {
    const bool makes =
        slot.pass == schedule::Pass::backward || slot.pass == schedule::Pass::weight_grad;
    s.expected[slot.chunk] += makes ? 1 : 0;
  }
  if (validates_later()) {
    norm_ = b_.stream("norm");
  }
  if (!travels()) {
    return;
  }
  if (wraps()) {
    gather_ = b_.stream("all-gather");
    data_ = b_.stream("reduce-scatter");
    if (plan_.replicas > 1) {
      replicas_ = b_.stream("all-reduce");
    }
    make_wraps();
  } else {
    data_ = b_.stream("data");
    if (job_.system.cycle_time.count() > 0) {
      ticks_ = b_.stream("background thread");
    }
  }
}

// The backward pass of this chunk that is under way is its last of the step.
bool StageBuilder::last_backward(int chunk) const {
  return data_parallel_.backwards[chunk] + 1 >= data_parallel_.expected[chunk];
}

bool StageBuilder::reduces(int chunk) const {
  if (!travels()) {
    return false;
  }
  return reduces_each_pass(plan_) || last_backward(chunk);
}

void StageBuilder::data_kernel(StreamIndex stream, double bytes, cost::MemoryOp op,
                               const char* label) {
  if (bytes < 1) {
    return;
  }
  const cost::Priced priced =
      context_.passes.kernels->memory(op, Bytes(static_cast<std::int64_t>(bytes)));
  b_.kernel(stream, priced.time.count(), priced.curve, Category::compute,
            context_.passes.labels->id(label), launch_);
}

void StageBuilder::data_collective(StreamIndex stream, Role role, cost::Collective op, double bytes,
                                   const char* what) {
  const auto count = static_cast<std::int64_t>(bytes);
  if (count <= 0) {
    return;
  }
  b_.collective(stream, role, context_.passes.book->key(role, op, count), Category::data,
                Category::stall,
                context_.passes.labels->id(std::string(what) + " " + cost::to_string(op)), launch_);
}

void StageBuilder::host_copy(StreamIndex stream, double bytes, cost::CopyDirection direction,
                             const char* label) {
  const cost::Priced priced =
      context_.passes.kernels->copy(direction, true, Bytes(static_cast<std::int64_t>(bytes)));
  program::Task& t = b_.kernel(stream, priced.time.count(), priced.curve, Category::data,
                               context_.passes.labels->id(label), launch_);
  t.slowdown = 0;
}

// ---------------------------------------------------------------- called around each unit's passes
void StageBuilder::before_forward(int chunk, std::size_t unit, int) {
  reduce_due_wraps();
  if (unit == 0) {
    ++data_parallel_.forwards[chunk];
    if (!wraps()) {
      issue_aligned_pieces();
    }
    ++data_parallel_.forward_slots;
  }
  if (!travels()) {
    return;
  }
  if (wraps()) {
    wrap_before_forward(chunk, unit);
  } else if (data_parallel_.forwards[chunk] == 1) {
    wait_for_piece(chunk, unit);
  }
}

void StageBuilder::after_forward(int chunk, std::size_t unit) {
  if (travels() && wraps()) {
    wrap_after_forward(chunk, unit);
  }
}

void StageBuilder::before_backward(int chunk, std::size_t unit) {
  reduce_due_wraps();
  if (travels() && wraps()) {
    wrap_before_backward(chunk, unit);
  }
}

// Between a unit's recomputed forward pass and its backward pass.
void StageBuilder::before_second_use(int chunk, std::size_t unit) {
  if (!travels() || !wraps()) {
    return;
  }
  Wrap& w = data_parallel_.wraps[data_parallel_.wrap[chunk][unit]];
  if (drops_after_recompute(w)) {
    drop_wrap(w, true);
    use_wrap(w, true);
  }
}

void StageBuilder::after_backward(int chunk, std::size_t unit, int) {
  if (travels() && wraps()) {
    wrap_after_backward(chunk, unit);
  } else {
    bucket_after_backward(chunk, unit);
  }
}

void StageBuilder::end_of_backward(int chunk, int) {
  if (travels() && wraps()) {
    wrap_end_of_backward(chunk);
  } else {
    bucket_end_of_backward(chunk);
  }
  auto& s = data_parallel_;
  ++s.backwards[chunk];
  s.bucket_sent[chunk] = false;
  ++s.backward_slots;
  reduce_later_chunks(s.backward_slots);
}

}  // namespace stepcast::lower
