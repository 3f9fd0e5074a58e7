// Gradients in buckets and parameters in pieces: replicated states, ZeRO-1 and ZeRO-2.
#include <algorithm>
#include <limits>

#include "stage_builder.h"

namespace stepcast::lower {

using cost::Collective;
using program::Category;
using program::MemoryCategory;
using program::StreamIndex;
using strategy::DataComm;

namespace {

std::int64_t backward_time(const Passes& passes) {
  std::int64_t sum = 0;
  for (const Item& item : passes.backward) {
    sum += item.kind == Item::Kind::kernel ? item.duration : 0;
  }
  return sum;
}

}  // namespace

// ---------------------------------------------------------------- gradients
// Megatron-LM cuts only the first chunk of the first stage; the others are hidden behind other
// stages' passes.
bool StageBuilder::bucketed(int chunk) const {
  return !job_.system.bucket_first_stage_only || (stage_ == 0 && chunk == 0);
}

// Without overlap, DeepSpeed fills and sends its buckets on the compute stream, with stages behind
// the last backward pass (runtime/pipe/schedule.py: ReduceGrads); the others send a chunk whole
// when the step's backward passes are done.
bool StageBuilder::sends_as_it_goes() const {
  return reduce_beside() || job_.parallelism.reduce_each ||
         plan_.data_comm == DataComm::shard_grads ||
         (always_in_buckets() && plan_.grid.pipeline == 1);
}

bool StageBuilder::always_in_buckets() const {
  return job_.system.family == job::System::Family::deepspeed;
}

void StageBuilder::reduce_gradients(std::int64_t elements, bool expert, StreamIndex stream) {
  const Sharing s = sharing(expert);
  if (elements <= 0) {
    return;
  }
  const double kept =
      static_cast<double>(elements) / (expert ? strategy::expert_shards(plan_) : plan_.shard_ranks);
  if (s.members() == 1) {
    offload_gradients(kept, compute_);
    return;
  }
  const auto& system = job_.system;
  const double bytes = static_cast<double>(elements) * width(job_.memory.dtypes.reduce);
  const double copied = bytes + static_cast<double>(elements) * width(job_.memory.dtypes.gradients);
  const bool ticks = ticks_ != 0 && stream == data_;
  if (ticks) {
    // Tensors that are ready leave at the background thread's next tick, half a cycle later on
    // average (horovod/common/operations.cc).
    b_.wait(ticks_, b_.mark(compute_));
    program::Task& tick = b_.kernel(ticks_, system.cycle_time.count() / 2, 0, Category::compute,
                                    context_.passes.labels->id("wait for the next cycle"), 0);
    tick.slowdown = 0;
    b_.wait(stream, b_.mark(ticks_));
    data_kernel(stream, copied, cost::MemoryOp::copy, "copy gradients into the fusion buffer");
  } else {
    b_.wait(stream, b_.mark(compute_));
  }
  const bool whole = plan_.data_comm == DataComm::all_reduce || plan_.data_comm == DataComm::none ||
                     (plan_.data_comm == DataComm::shard_states && system.zero1_all_reduces) ||
                     (plan_.data_comm == DataComm::shard_grads && system.zero2_all_reduces) ||
                     by_owner(job_, shares());
  const int inner = system.hierarchical_all_reduce && !expert ? node_share(plan_) : 1;
  if (system.hierarchical_all_reduce && !expert && whole) {
    // NCCL in the node, MPI on the hosts between nodes (nccl_operations.cc:
    // NCCLHierarchicalAllreduce).
    const double share = bytes / inner;
    if (inner > 1) {
      data_collective(stream, kNode, Collective::reduce_scatter, bytes, "gradients");
    }
    if (inner < s.shards) {
      host_copy(stream, share, cost::CopyDirection::device_to_host, "gradients to the host");
      data_collective(stream, kAcross, Collective::all_reduce, share, "gradients");
      host_copy(stream, share, cost::CopyDirection::host_to_device, "gradients from the host");
    }
    if (inner > 1) {
      data_collective(stream, kNode, Collective::all_gather, bytes, "gradients");
    }
  } else {
    const Collective op = whole                    ? Collective::all_reduce
                          : system.reduce_to_owner ? Collective::reduce
                                                   : Collective::reduce_scatter;
    data_collective(stream, s.group, op, bytes, "gradients");
  }
  if (s.copies > 1) {
    data_collective(stream, s.replicas, Collective::all_reduce, bytes / (whole ? 1 : s.shards),
                    "gradients");
  }
  if (ticks) {
    data_kernel(stream, copied, cost::MemoryOp::copy, "copy gradients out of the fusion buffer");
  }
  offload_gradients(kept, stream);
}

void StageBuilder::flush_gradients(int chunk, StreamIndex stream) {
  Elements& pending = data_parallel_.pending[chunk];
  reducing_ = chunk;
  reduce_gradients(pending.dense, false, stream);
  reduce_gradients(pending.expert, true, stream);
  pending = {};
}

void StageBuilder::fill_buckets(int chunk, std::size_t unit) {
  auto& s = data_parallel_;
  const StreamIndex stream = reduce_beside() ? data_ : compute_;
  Elements& pending = s.pending[chunk];
  const Passes& passes = *units_[chunk][unit].passes;
  reducing_ = chunk;
  if (!bucketed(chunk) || !(sends_as_it_goes() || always_in_buckets())) {
    pending += {passes.parameters, passes.expert_parameters};
    return;
  }
  const auto& system = job_.system;
  const std::int64_t bucket = strategy::bucket_elements(plan_);
  const auto first = static_cast<std::int64_t>(
      static_cast<double>(system.first_bucket_bytes.count()) / width(job_.memory.dtypes.reduce));
  // Arrays get their gradients last to first. Buckets hold whole arrays.
  for (std::size_t i = passes.arrays.size(); i-- > 0;) {
    const Array& array = passes.arrays[i];
    std::int64_t& filled = array.expert ? pending.expert : pending.dense;
    const std::int64_t limit = first > 0 && !s.bucket_sent[chunk] ? first : bucket;
    const auto send = [&] {
      reduce_gradients(filled, array.expert, stream);
      s.bucket_sent[chunk] = true;
      filled = 0;
    };
    if (system.bucket_before_overflow && filled > 0 && filled + array.elements > limit) {
      send();
    }
    filled += array.elements;
    if (!system.bucket_before_overflow && filled >= limit) {
      send();
    }
  }
  if (ticks_ != 0) {
    s.cycle += backward_time(passes);
    if (s.cycle >= system.cycle_time.count()) {
      s.cycle = 0;
      flush_gradients(chunk, stream);
    }
  }
}

void StageBuilder::bucket_after_backward(int chunk, std::size_t unit) {
  const Passes& passes = *units_[chunk][unit].passes;
  const auto elements = static_cast<double>(passes.parameters + passes.expert_parameters);
  const double wide = width(job_.memory.dtypes.gradients);
  const auto family = job_.system.family;
  const bool made_here = family == job::System::Family::ddp || family == job::System::Family::fsdp2;
  const bool in_buckets = job_.system.gradient_bucket_view && travels();
  if (data_parallel_.backwards[chunk] == 0 && made_here && !in_buckets) {
    data_parallel_.gradient_buffers.push_back(b_.allocate(round_512(elements * wide),
                                                          MemoryCategory::gradients,
                                                          context_.passes.labels->id("gradients")));
  }
  if (!reduces(chunk)) {
    return;
  }
  if (copies_into_buckets()) {
    data_kernel(compute_, 2 * elements * wide, cost::MemoryOp::copy, "copy gradients into buckets");
  }
  if (sends_as_it_goes() || !always_in_buckets()) {
    fill_buckets(chunk, unit);
  }
}

// What did not overlap, behind the step's backward passes.
void StageBuilder::reduce_what_is_left() {
  for (std::size_t c = units_.size(); c-- > 0;) {
    const int chunk = static_cast<int>(c);
    if (always_in_buckets() && !sends_as_it_goes()) {
      for (std::size_t u = units_[c].size(); u-- > 0;) {
        fill_buckets(chunk, u);
      }
    }
    flush_gradients(chunk, compute_);
  }
}

// DDP without gradient_as_bucket_view: into the bucket, and back when the reduction is done
// (reducer.cpp).
bool StageBuilder::copies_into_buckets() const {
  return travels() && !wraps() && job_.system.family == job::System::Family::ddp &&
         !job_.system.gradient_bucket_view && ticks_ == 0;
}

void StageBuilder::bucket_end_of_backward(int chunk) {
  if (!reduces(chunk) || !sends_as_it_goes()) {
    return;
  }
  auto& s = data_parallel_;
  const bool aligned = job_.system.align_grad_reduce && plan_.interleaved && reduce_beside() &&
                       last_backward(chunk) && stage_ > 0;
  if (aligned) {
    // Stages reach a chunk's last micro-batch one pass after another; each waits for the first
    // (pipeline_parallel/schedules.py: grad_sync_virtual_microbatch_id).
    s.later.push_back({s.backward_slots + 1 + stage_, chunk});
  } else {
    flush_gradients(chunk, reduce_beside() ? data_ : compute_);
  }
}

void StageBuilder::reduce_later_chunks(int slot) {
  auto& later = data_parallel_.later;
  while (!later.empty() && later.front().slot <= slot) {
    flush_gradients(later.front().chunk, data_);
    later.erase(later.begin());
  }
}

// ---------------------------------------------------------------- parameters
bool StageBuilder::shards_states() const {
  return !wraps() &&
         (plan_.data_comm == DataComm::shard_states || plan_.data_comm == DataComm::shard_grads);
}

void StageBuilder::gather_parameters(const Elements& elements, StreamIndex stream) {
  const double wide = width(plan_.style.dtype);
  for (const bool expert : {false, true}) {
    const double bytes = static_cast<double>(expert ? elements.expert : elements.dense) * wide;
    const Sharing s = sharing(expert);
    if (s.shards == 1) {
      continue;
    }
    if (!job_.system.reduce_to_owner) {
      data_collective(stream, s.group, Collective::all_gather, bytes, "parameters");
      continue;
    }
    for (int owner = 0; owner < s.shards; ++owner) {
      data_collective(stream, s.group, Collective::broadcast, bytes / s.shards, "parameters");
    }
  }
}

// A chunk's parameters in the pieces in which they are gathered: buckets where gradients have them
// too.
void StageBuilder::make_pieces() {
  auto& pieces = data_parallel_.pieces;
  const bool cut = reduce_beside() || always_in_buckets();
  for (std::size_t c = 0; c < units_.size(); ++c) {
    const std::int64_t bucket = cut && bucketed(static_cast<int>(c))
                                    ? strategy::bucket_elements(plan_)
                                    : std::numeric_limits<std::int64_t>::max();
    bool open = false;
    for (std::size_t u = 0; u < units_[c].size(); ++u) {
      if (!open) {
        pieces.push_back({static_cast<int>(c), u, u, {}, false, {}});
        open = true;
      }
      const Passes& passes = *units_[c][u].passes;
      pieces.back().last = u;
      pieces.back().elements += {passes.parameters, passes.expert_parameters};
      open = pieces.back().elements.total() < bucket;
    }
  }
}

void StageBuilder::gather_parameters_at_start() {
  if (!travels() || !shards_states() || !gather_beside()) {
    return;
  }
  make_pieces();
  auto& pieces = data_parallel_.pieces;
  for (ParameterPiece& piece : pieces) {
    // Interleaved: the first two chunks at once.
    if (&piece == &pieces.front() || (plan_.interleaved && piece.chunk < 2)) {
      issue_piece(piece);
    }
  }
}

void StageBuilder::issue_piece(ParameterPiece& piece) {
  if (piece.issued) {
    return;
  }
  if (!data_parallel_.waited_for_step) {
    b_.wait_previous_step(data_, compute_);
    if (job_.memory.offload.any()) {
      b_.wait_previous_step(data_, to_device_);
    }
    data_parallel_.waited_for_step = true;
  }
  gather_parameters(piece.elements, data_);
  piece.gathered = b_.mark(data_);
  piece.issued = true;
}

// Interleaved: a chunk's first micro-batch asks for the next chunk's parameters, on later stages
// earlier by their rank, so that all stages gather together (pipeline_parallel/schedules.py:
// param_sync_virtual_microbatch_id).
void StageBuilder::issue_aligned_pieces() {
  auto& s = data_parallel_;
  if (s.pieces.empty() || !plan_.interleaved) {
    return;
  }
  int at = s.forward_slots + (job_.system.align_param_gather ? stage_ : 0);
  std::vector<bool> seen(units_.size(), false);
  for (const schedule::Slot& slot : plan_.order.ranks[stage_]) {
    if (slot.pass != schedule::Pass::forward) {
      continue;
    }
    if (at-- == 0) {
      for (ParameterPiece& piece : s.pieces) {
        if (!seen[slot.chunk] && piece.chunk == slot.chunk + 1) {
          issue_piece(piece);
        }
      }
      return;
    }
    seen[slot.chunk] = true;
  }
}

// The forward pass waits for a piece where it first needs it, and asks for the next
// (--overlap-param-gather's chain).
void StageBuilder::wait_for_piece(int chunk, std::size_t unit) {
  auto& pieces = data_parallel_.pieces;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].chunk != chunk || pieces[i].first != unit) {
      continue;
    }
    issue_piece(pieces[i]);
    b_.wait(compute_, pieces[i].gathered);
    if (i + 1 < pieces.size() && (!plan_.interleaved || pieces[i + 1].chunk == chunk)) {
      issue_piece(pieces[i + 1]);
    }
  }
}

}  // namespace stepcast::lower
