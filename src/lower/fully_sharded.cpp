// Units whose parameters are sharded between uses: FSDP, ZeRO-3, ZeRO++, Gemini's chunks. Streams
// and waits of FSDP2 follow torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py, those of
// FSDP1 torch/distributed/fsdp/_runtime_utils.py.
#include <algorithm>

#include "stage_builder.h"

namespace stepcast::lower {

using cost::Collective;
using program::Category;
using program::kNone;
using program::MemoryCategory;
using program::StreamIndex;
using strategy::DataComm;
using Prefetch = job::System::Prefetch;

namespace {

// Elements that a wrap gathers, frozen ones and tiles among them.
std::int64_t gathered_elements(const Wrap& w, double element_bytes) {
  return w.elements.total() + w.tiled +
         static_cast<std::int64_t>(static_cast<double>(w.frozen_bytes) / element_bytes);
}

}  // namespace

// ---------------------------------------------------------------- what is gathered together
void StageBuilder::make_wraps() {
  auto& s = data_parallel_;
  // Embedding and head belong to FSDP's root, which stays whole until its backward, unless they are
  // wrapped themselves; DeepSpeed's modules are all alike.
  const bool roots =
      job_.system.family != job::System::Family::deepspeed && !job_.system.wraps_ends;
  const int together = std::max(1, job_.system.unit_layers);
  s.wrap.resize(units_.size());
  for (std::size_t c = 0; c < units_.size(); ++c) {
    int layers = 0;
    for (std::size_t u = 0; u < units_[c].size(); ++u) {
      const Unit& unit = units_[c][u];
      const bool layer = unit.kind == Unit::Kind::layer;
      if (!layer || layers == 0) {
        Wrap w;
        w.chunk = static_cast<int>(c);
        w.first = u;
        w.root = roots && !layer;
        s.wraps.push_back(w);
      }
      layers = layer ? (layers + 1) % together : 0;
      Wrap& w = s.wraps.back();
      w.last = u;
      w.elements += {unit.passes->parameters, unit.passes->expert_parameters};
      w.frozen_bytes += unit.passes->frozen_bytes;
      for (const Array& array : unit.passes->arrays) {
        if (array.tiled) {
          w.tiled += array.elements;
          w.elements.dense -= array.elements;
        } else if (!array.expert && array.elements <= job_.system.persistent_elements) {
          w.persistent += array.elements;
          w.elements.dense -= array.elements;
        }
      }
      s.wrap[c].push_back(s.wraps.size() - 1);
    }
  }
  std::int64_t before = 0;
  for (Wrap& w : s.wraps) {
    w.before = before;
    before += gathered_elements(w, width(plan_.style.dtype));
  }
  for (Wrap& w : s.wraps) {
    w.behind = before - w.before - gathered_elements(w, width(plan_.style.dtype));
  }
  make_chunks();
}

// Bytes of a wrap's parameters as the forward and backward passes read them.
double StageBuilder::whole_bytes(const Wrap& w) const {
  return static_cast<double>(w.elements.total()) * width(plan_.style.dtype) +
         static_cast<double>(w.frozen_bytes);
}

// Elements of a wrap's gradient. A flat parameter takes a gradient as a whole when any part of it
// does: frozen parts are zeros in it (flat_param.py: use_orig_params with mixed requires_grad).
Elements StageBuilder::reduced(const Wrap& w) const {
  Elements out = w.elements;
  out.dense += w.persistent;
  if (job_.system.flat_parameters && out.total() > 0) {
    const double wide = width(job_.memory.dtypes.parameters);
    out.dense += static_cast<std::int64_t>(static_cast<double>(w.frozen_bytes) / wide);
  }
  return out;
}

int StageBuilder::partition_ranks() const {
  const auto& parallelism = job_.parallelism;
  const int ranks =
      parallelism.zeropp.partition > 0 ? parallelism.zeropp.partition : parallelism.reshard_size;
  return ranks > 1 && ranks < plan_.shard_ranks ? ranks : 1;
}

// Gathered parameters are dropped behind the forward pass. A DeepSpeed module that is read again
// soon stays (stage3_max_reuse_distance, in elements in between).
bool StageBuilder::drops_after_forward(const Wrap& w) const {
  const bool reused = 2 * w.behind < job_.system.reuse_elements;
  return plan_.data_comm == DataComm::shard_all && job_.parallelism.reshard_after_forward &&
         !w.root && (!reused || !data_parallel_.chunks.empty());
}

// DeepSpeed's modules are given up behind a recomputed pass as behind any forward pass, unless the
// backward pass reads them within the reuse distance; FSDP's stay through the unit's backward.
bool StageBuilder::drops_after_recompute(const Wrap& w) const {
  return job_.system.zero3_buckets && !job_.system.gradients_in_parameters && w.first == w.last &&
         w.elements.total() > job_.system.reuse_elements;
}

// ---------------------------------------------------------------- gathering
void StageBuilder::gather_wrap(Wrap& w, bool backward) {
  if (w.whole || w.issued) {
    return;
  }
  auto& s = data_parallel_;
  const auto& system = job_.system;
  const bool beside = gather_beside();
  const StreamIndex stream = beside ? gather_ : compute_;
  const bool from_partition = backward && w.partition;
  const Prefetch prefetch = backward ? system.backward_prefetch : system.forward_prefetch;
  std::vector<Mark> order;
  if (beside) {
    if (!s.waited_for_step) {
      b_.wait_previous_step(gather_, compute_);  // parameters of the step before are updated
      s.waited_for_step = true;
    }
    if (prefetch == Prefetch::none) {
      order.push_back(b_.mark(compute_));
    } else if (!system.flat_parameters) {
      order.push_back(s.last_copy_out);
    } else if (system.limit_all_gathers && s.freed.size() > 1) {
      order.push_back(s.freed[s.freed.size() - 2]);
    }
  }
  // Its own shard comes first, in the order of the gathers unless it was fetched ahead.
  std::vector<Mark> behind = order;
  behind.push_back(b_.mark(stream));
  fetch_wrap(w, behind);
  order.push_back(w.fetch_done);
  for (const Mark& mark : order) {
    b_.wait(stream, mark);
  }
  if (beside && !from_partition) {
    b_.wait(gather_, b_.mark(data_));  // one communicator runs its operations in order of issue
  }
  const bool in_chunks = !data_parallel_.chunks.empty();
  w.gather_buffer = b_.allocate(
      in_chunks ? w.frozen_bytes : static_cast<std::int64_t>(whole_bytes(w)),
      MemoryCategory::communication, context_.passes.labels->id("gathered parameters"), stream);
  gather_chunks(w, stream);
  // ZeRO++: quantised blocks travel; the second copy in the partition keeps the parameters' own
  // format.
  const auto& quantised = job_.parallelism.zeropp.weights;
  const double own = width(plan_.style.dtype);
  const bool narrow = quantised.has_value() && !from_partition;
  const double wide = narrow ? width(*quantised) : own;
  for (const bool expert : {false, true}) {
    const Sharing sharing_of = sharing(expert);
    const std::int64_t dense = in_chunks ? 0 : w.elements.dense;  // chunks have been gathered
    const auto count = static_cast<double>(expert ? w.elements.expert : dense);
    const bool partitioned = from_partition && !expert;
    const int ranks = partitioned ? partition_ranks() : sharing_of.shards;
    const double bytes = count * wide + (expert ? 0 : static_cast<double>(w.frozen_bytes));
    if (ranks == 1 || bytes < 1) {
      continue;
    }
    if (narrow) {
      data_kernel(stream, count / ranks * (own + wide), cost::MemoryOp::elementwise,
                  "quantise parameters");
    }
    data_collective(stream, partitioned ? kPartition : sharing_of.group, Collective::all_gather,
                    bytes, "parameters");
    if (narrow) {
      data_kernel(stream, count * (own + wide), cost::MemoryOp::elementwise,
                  "dequantise parameters");
    }
  }
  w.gathered = b_.mark(stream);
  w.gathered = w.gathered.position == 0 ? w.fetch_done : w.gathered;
  // The frameworks bring it on the gathers' stream: none is recorded on the block.
  b_.release(w.fetch_buffer);
  w.fetch_buffer = kNone;
  w.fetched = false;
  w.issued = true;
}

void StageBuilder::use_wrap(Wrap& w, bool backward) {
  if (w.whole) {
    return;
  }
  gather_wrap(w, backward);
  auto& s = data_parallel_;
  b_.wait(compute_, w.gathered);
  if (job_.system.flat_parameters || !s.chunks.empty()) {
    w.parameters = w.gather_buffer;  // views of the flat parameter
  } else {
    // Forward, what was gathered stays until the next copy-out begins; backward, it goes behind its
    // own. The gather's stream waits for the copy, so no stream is recorded on the block.
    b_.release(s.last_gather_buffer);
    w.parameters =
        b_.allocate(static_cast<std::int64_t>(whole_bytes(w)), MemoryCategory::communication,
                    context_.passes.labels->id("unsharded parameters"));
    data_kernel(compute_, 2 * whole_bytes(w), cost::MemoryOp::copy, "copy gathered parameters out");
    s.last_copy_out = b_.mark(compute_);
    s.last_gather_buffer = w.gather_buffer;
    if (backward) {
      b_.release(s.last_gather_buffer);
      s.last_gather_buffer = kNone;
    }
  }
  w.gather_buffer = kNone;
  w.issued = false;
  w.whole = true;
  if (backward) {
    b_.release(w.partition_buffer, 1U << gather_);
    w.partition_buffer = kNone;
    w.partition = false;
  }
}

void StageBuilder::drop_wrap(Wrap& w, bool backward) {
  drop_chunks(w, backward);
  b_.release(w.parameters, 1U << compute_);
  w.parameters = kNone;
  w.whole = false;
  data_parallel_.freed.push_back(b_.mark(compute_));
}

// The gathers that go out before wrap `at` computes: the next one in the direction of the pass, or
// as many as DeepSpeed's prefetch bucket takes.
void StageBuilder::prefetch_wraps(std::size_t at, bool backward) {
  auto& wraps = data_parallel_.wraps;
  const Prefetch prefetch = backward ? job_.system.backward_prefetch : job_.system.forward_prefetch;
  if (prefetch != Prefetch::explicit_ || !gather_beside()) {
    return;
  }
  std::int64_t left = std::max<std::int64_t>(job_.system.prefetch_elements, 1);
  const int step = backward ? -1 : 1;
  for (auto i = static_cast<std::ptrdiff_t>(at) + step;
       i >= 0 && i < static_cast<std::ptrdiff_t>(wraps.size()) && left > 0; i += step) {
    Wrap& w = wraps[static_cast<std::size_t>(i)];
    if (w.chunk != wraps[at].chunk) {
      return;
    }
    if (!w.whole) {
      left -= gathered_elements(w, width(plan_.style.dtype));
      gather_wrap(w, backward);
    }
  }
}

// ---------------------------------------------------------------- forward
void StageBuilder::wrap_before_forward(int chunk, std::size_t unit) {
  auto& s = data_parallel_;
  const std::size_t index = s.wrap[chunk][unit];
  Wrap& w = s.wraps[index];
  if (unit != w.first) {
    return;
  }
  use_wrap(w, false);
  if (!w.root && unit + 1 == units_[chunk].size()) {
    // The root's post-forward gives up the last gather's result (_fsdp_state.py: _post_forward),
    // that of a head wrapped by itself: its loss does not see it.
    b_.release(s.last_gather_buffer);
    s.last_gather_buffer = kNone;
  }
  fetch_ahead(index, false);
  prefetch_wraps(index, false);
}

void StageBuilder::wrap_after_forward(int chunk, std::size_t unit) {
  auto& s = data_parallel_;
  Wrap& w = s.wraps[s.wrap[chunk][unit]];
  if (unit != w.last || !drops_after_forward(w)) {
    return;
  }
  const int partition = partition_ranks();
  if (partition > 1 && !w.partition) {
    w.partition = true;
    if (job_.parallelism.zeropp.partition == 0) {  // hpZ's stands from step to step
      w.partition_buffer =
          b_.allocate(round_512(whole_bytes(w) / partition), MemoryCategory::communication,
                      context_.passes.labels->id("parameters in the partition"));
    }
    data_kernel(compute_, 2 * whole_bytes(w) / partition, cost::MemoryOp::copy,
                "keep the partition's shard");
  }
  drop_wrap(w, false);
}

// ---------------------------------------------------------------- backward
void StageBuilder::wrap_before_backward(int chunk, std::size_t unit) {
  auto& s = data_parallel_;
  // What is recomputed together is gathered together.
  std::size_t first = unit;
  for (const Again& again : units_[chunk][unit].again) {
    first = std::min(first, again.unit);
  }
  for (std::size_t u = first; u <= unit; ++u) {
    use_wrap(s.wraps[s.wrap[chunk][u]], true);
  }
  const std::size_t index = s.wrap[chunk][unit];
  Wrap& w = s.wraps[index];
  if (unit != w.last) {
    return;
  }
  fetch_ahead(index, true);
  prefetch_wraps(index, true);
}

// The pass that makes a wrap's weight gradients opens its last unit: of a split pass the second
// half, since input gradients of later micro-batches may run in between.
void StageBuilder::make_fresh_gradients(int chunk, std::size_t unit) {
  if (!travels() || !wraps() || job_.system.gradients_in_parameters) {
    return;
  }
  Wrap& w = data_parallel_.wraps[data_parallel_.wrap[chunk][unit]];
  if (unit == w.last) {
    w.fresh = b_.allocate(
        round_512(static_cast<double>(reduced(w).total()) * width(plan_.style.dtype)),
        MemoryCategory::communication, context_.passes.labels->id("unsharded gradients"));
  }
}

void StageBuilder::wrap_after_backward(int chunk, std::size_t unit) {
  auto& s = data_parallel_;
  Wrap& w = s.wraps[s.wrap[chunk][unit]];
  if (unit != w.first) {
    return;
  }
  if (!reduces_each_pass(plan_)) {
    // Between stages the runtime neither reduces nor reshards until the last micro-batch is through
    // (torch.distributed.pipelining, stage.py: backward_maybe_with_nosync).
    const bool stages = plan_.grid.pipeline > 1;
    if (stages || !last_backward(chunk)) {
      accumulate_whole(w);
    }
    if (stages) {
      return;
    }
  }
  const bool reused = 2 * w.before < job_.system.reuse_elements && !last_backward(chunk) &&
                      data_parallel_.chunks.empty();
  const bool first = job_.system.family == job::System::Family::fsdp2 && !reused &&
                     !job_.system.gradients_in_parameters;
  if (first) {  // FSDP's post_backward: reshard, then reduce
    drop_wrap(w, true);
  }
  if (reduces(chunk)) {
    if (job_.system.zero3_buckets) {
      reduce_in_buckets(w);
    } else {
      reduce_wrap(w);
    }
  }
  if (!reused && !first) {
    drop_wrap(w, true);
  }
}

// Whole gradients wait for the last micro-batch: FSDP2's in the format of the reduction
// (unsharded_accumulated_grad), FSDP1's in that of the parameters (flat_param.grad).
void StageBuilder::accumulate_whole(Wrap& w) {
  if (w.gradients == kNone && w.fresh != kNone) {
    const double wide =
        job_.system.flat_parameters ? width(plan_.style.dtype) : width(job_.memory.dtypes.reduce);
    w.gradients =
        b_.allocate(round_512(static_cast<double>(reduced(w).total()) * wide),
                    MemoryCategory::gradients, context_.passes.labels->id("accumulated gradients"));
  }
  give_up_fresh(w, 0);
}

void StageBuilder::wrap_end_of_backward(int chunk) {
  if (job_.system.zero3_buckets && reduces(chunk)) {
    send_bucket(chunk, false);
    send_bucket(chunk, true);
  }
  if (plan_.grid.pipeline == 1 || reduces_each_pass(plan_) || !last_backward(chunk)) {
    return;
  }
  data_parallel_.due.push_back(chunk);
}

// The runtime's REDUCE_GRAD and RESHARD come behind the send that follows a stage's last backward
// pass (torch.distributed.pipelining, schedules.py).
void StageBuilder::reduce_due_wraps() {
  auto& s = data_parallel_;
  for (const int chunk : s.due) {
    for (std::size_t i = s.wraps.size(); i-- > 0;) {
      Wrap& w = s.wraps[i];
      if (w.chunk == chunk) {
        if (!job_.system.gradients_in_parameters) {
          drop_wrap(w, true);
        }
        reduce_wrap(w);
        b_.release(w.gradients, 1U << data_);
        w.gradients = kNone;
        if (job_.system.gradients_in_parameters) {
          drop_wrap(w, true);
        }
      }
    }
  }
  s.due.clear();
}

// ---------------------------------------------------------------- gradients
void StageBuilder::reduce_wrap(Wrap& w) {
  auto& s = data_parallel_;
  const auto& system = job_.system;
  const auto& types = job_.memory.dtypes;
  const bool beside = reduce_beside();
  const StreamIndex stream = beside ? data_ : compute_;
  const Elements count = reduced(w);
  const auto elements = static_cast<double>(count.total());
  const double reduce_bytes = elements * width(types.reduce);
  const double gradient_bytes = elements * width(plan_.style.dtype);
  // FSDP2: one reduce-scatter is in flight, its input is given up before the next is filled.
  if (!system.flat_parameters) {
    b_.wait(compute_, s.last_reduce);
  }
  // The compute stream has waited for it: FSDP2 records no stream.
  b_.release(s.last_reduce_buffer, system.flat_parameters ? 1U << data_ : 0);
  s.last_reduce_buffer = kNone;
  const bool in_place = system.gradients_in_parameters ||
                        (system.flat_parameters && types.reduce == plan_.style.dtype);
  if (!in_place) {
    s.last_reduce_buffer =
        b_.allocate(static_cast<std::int64_t>(reduce_bytes), MemoryCategory::communication,
                    context_.passes.labels->id("gradients to reduce"));
    data_kernel(compute_, gradient_bytes + reduce_bytes, cost::MemoryOp::copy, "copy gradients in");
    give_up_fresh(w, 0);
    b_.release(w.gradients);
    w.gradients = kNone;
  }
  reducing_ = w.chunk;
  make_sharded_gradients(w);
  b_.wait(stream, b_.mark(gather_));  // one communicator runs its operations in order of issue
  std::int64_t dense = count.dense;
  if (!s.chunks.empty()) {  // whole, once the last gradient is in
    dense = w.persistent;
    for (const Chunk* c : chunks_ended_by(w, true)) {
      dense += c->elements;
    }
  }
  reduce_shards(dense, false, stream);
  reduce_shards(count.expert, true, stream);
  s.last_reduce = b_.mark(stream);
  give_up_fresh(w, 1U << data_);
  b_.release(w.gradients, 1U << data_);
  w.gradients = kNone;
}

void StageBuilder::give_up_fresh(Wrap& w, std::uint32_t streams) {
  b_.release(w.fresh, streams);
  w.fresh = kNone;
}

// DeepSpeed's stage 3 copies gradients into a flat bucket, and reduces it before a parameter would
// overfill it (stage3.py: __add_grad_to_ipg_bucket).
void StageBuilder::reduce_in_buckets(Wrap& w) {
  const std::int64_t bucket = strategy::bucket_elements(plan_);
  const auto elements = static_cast<double>(w.elements.total() + w.persistent);
  data_kernel(compute_, elements * (width(plan_.style.dtype) + width(job_.memory.dtypes.reduce)),
              cost::MemoryOp::copy, "copy gradients in");
  give_up_fresh(w, 0);
  Elements& pending = data_parallel_.pending[w.chunk];
  for (std::size_t u = w.last + 1; u-- > w.first;) {
    const auto& arrays = units_[w.chunk][u].passes->arrays;
    for (std::size_t i = arrays.size(); i-- > 0;) {
      if (arrays[i].tiled) {
        continue;
      }
      std::int64_t& filled = arrays[i].expert ? pending.expert : pending.dense;
      if (filled > 0 && filled + arrays[i].elements > bucket) {
        send_bucket(w.chunk, arrays[i].expert);
      }
      filled += arrays[i].elements;
    }
  }
}

void StageBuilder::send_bucket(int chunk, bool expert) {
  Elements& pending = data_parallel_.pending[chunk];
  std::int64_t& filled = expert ? pending.expert : pending.dense;
  if (filled == 0) {
    return;
  }
  const StreamIndex stream = reduce_beside() ? data_ : compute_;
  reducing_ = chunk;
  b_.wait(stream, b_.mark(gather_));
  reduce_shards(filled, expert, stream);
  b_.wait(compute_, data_parallel_.last_reduce);  // two are outstanding at most
  data_parallel_.last_reduce = b_.mark(stream);
  filled = 0;
}

// Gradients of FSDP's shards are made in the first backward pass of a step.
void StageBuilder::make_sharded_gradients(Wrap& w) {
  if (job_.system.family != job::System::Family::fsdp2 || w.shard_made) {
    return;
  }
  w.shard_made = true;
  const double wide = width(job_.memory.dtypes.gradients);
  const Elements count = reduced(w);
  const double bytes = (static_cast<double>(count.dense) * wide / sharing(false).shards +
                        static_cast<double>(count.expert) * wide / sharing(true).shards) *
                       (1 - share_away(job_.memory.offload.gradients));
  data_parallel_.gradient_buffers.push_back(
      b_.allocate(round_512(bytes), MemoryCategory::gradients,
                  context_.passes.labels->id("sharded gradients"), data_));
}

void StageBuilder::reduce_shards(std::int64_t elements, bool expert, StreamIndex stream) {
  const Sharing s = sharing(expert);
  if (elements <= 0) {
    return;
  }
  if (s.members() == 1) {
    offload_gradients(static_cast<double>(elements), compute_);
    return;
  }
  const auto& quantised = job_.parallelism.zeropp.gradients;
  b_.wait(stream, b_.mark(compute_));
  const double bytes = static_cast<double>(elements) * width(job_.memory.dtypes.reduce);
  if (quantised && !expert) {
    quantised_reduce(elements, stream);
  } else {
    data_collective(stream, s.group, Collective::reduce_scatter, bytes, "gradients");
  }
  if (s.copies > 1) {
    const StreamIndex beside = replicas_ != 0 && stream != compute_ ? replicas_ : stream;
    b_.wait(beside, b_.mark(stream));
    data_collective(beside, s.replicas, Collective::all_reduce, bytes / s.shards, "gradients");
    offload_gradients(static_cast<double>(elements) / s.shards, beside);
    return;
  }
  offload_gradients(static_cast<double>(elements) / s.shards, stream);
}

// qgZ: blocks of 4 bits by all-to-all in the node, summed, then by all-to-all between nodes
// (2306.10209, section 4.3).
void StageBuilder::quantised_reduce(std::int64_t elements, StreamIndex stream) {
  // Half an int8, as the job counts int4.
  const double narrow = width(*job_.parallelism.zeropp.gradients) / 2;
  const double own = width(plan_.style.dtype);
  const int inner = node_share(plan_);
  const int outer = plan_.shard_ranks / inner;
  double count = static_cast<double>(elements);
  for (const bool in_node : {true, false}) {
    const int ranks = in_node ? inner : outer;
    if (ranks == 1) {
      continue;
    }
    data_kernel(stream, count * (own + narrow), cost::MemoryOp::elementwise, "quantise gradients");
    data_collective(stream, in_node ? kNode : kAcross, Collective::all_to_all, count * narrow,
                    "gradients");
    data_kernel(stream, count * (narrow + own / ranks), cost::MemoryOp::elementwise,
                "dequantise and sum gradients");
    count /= ranks;
  }
}

}  // namespace stepcast::lower
