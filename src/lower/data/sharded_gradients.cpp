// Gradients of units that are gathered whole (sharded_parameters.cpp): made whole by a backward
// pass, reduced to shards behind it or behind the step's last one.
#include <algorithm>
#include <map>

#include "../offload/state_offload.h"
#include "../stage/feature_list.h"
#include "../tensors/unit_tensors.h"
#include "buckets.h"
#include "parameter_formats.h"
#include "unit_bucket.h"

namespace stepcast::lower {

using program::kNone;
using program::MemoryCategory;
using program::StreamIndex;

namespace {

class ShardedGradients final : public Feature {
 public:
  void make_states(Stage& stage) override;
  void before_forward(Stage& stage, int chunk, std::size_t unit) override;
  void after_forward(Stage& stage, int chunk, std::size_t unit) override;
  void before_backward(Stage& stage, int chunk, std::size_t unit) override;
  void before_weight_gradients(Stage& stage, int chunk, std::size_t unit) override;
  void after_backward(Stage& stage, int chunk, std::size_t unit) override;
  void end_of_backward(Stage& stage, int chunk) override;
  void end_of_step(Stage& stage, StepEnd part) override;

 private:
  void reduce_due(Stage& stage);
  void accumulate_whole(Stage& stage, Wrap& w);
  // A unit's gradients one by one, as they are made and as they wait for the last micro-batch.
  struct OneByOne {
    std::vector<TensorList> made, waiting;
  };
  static OneByOne one_by_one(const Stage& stage, const Wrap& w, std::size_t unit,
                             const TensorList& made);
  program::BufferIndex make_added(Stage& stage, const Wrap& w, std::size_t unit,
                                  const TensorList& made);
  void make_fresh(Stage& stage, Wrap& w, std::size_t unit);

  std::vector<int> due_;  // chunks to be reduced behind what their last backward pass sends
  bool begun_ = false;    // a forward pass of this step has
  std::map<const TensorList*, OneByOne> one_by_one_;              // by a unit's list
  std::map<const TensorList*, TensorList> added_;                 // each given up as it is added
  program::BufferIndex adding_ = kNone;                           // of the unit under way
  std::map<program::BufferIndex, const TensorList*> waiting_of_;  // by a fresh one
  UnitBucket bucket_;
};

void give_up(Stage& stage, std::vector<program::BufferIndex>& gradients, std::uint32_t streams) {
  for (const program::BufferIndex gradient : gradients) {
    stage.builder.release(gradient, streams);
  }
  gradients.clear();
}

void give_up_fresh(Stage& stage, Wrap& w, std::uint32_t streams) {
  give_up(stage, w.gradients.fresh, streams);
}

double shard_gradient_bytes(const Stage& stage, const Wrap& w) {
  const double wide = width(stage.plan.precision.gradients);
  const Elements count = gradient_elements(stage, w);
  return (static_cast<double>(count.dense) * wide / sharing(stage.plan, false).shards +
          static_cast<double>(count.expert) * wide / sharing(stage.plan, true).shards) *
         (1 - stage.plan.offload.gradients.share());
}

// FSDP allocates the gradients of its shards in the first backward pass of a step.
void make_shard(Stage& stage, Wrap& w) {
  if (!stage.plan.state_layout.makes_sharded_gradients || w.gradients.shard_made) {
    return;
  }
  w.gradients.shard_made = true;
  if (w.gradients.standing != kNone) {
    stage.builder.allocate(w.gradients.standing);
    return;
  }
  stage.gradients.buffers.push_back(stage.builder.allocate(
      whole_blocks(shard_gradient_bytes(stage, w)), MemoryCategory::gradients,
      label_of(stage, "sharded gradients"), stage.streams.data));
}

// Autograd's own gradients of experts that are in no unit: from the step's first backward pass to
// its end, in the parameters' format; of weights in 8 bits in the activations'.
void make_outside(Stage& stage, Wrap& w) {
  if (w.outside == 0 || w.gradients.outside_made) {
    return;
  }
  w.gradients.outside_made = true;
  stage.gradients.buffers.push_back(stage.builder.allocate(
      whole_blocks(static_cast<double>(w.outside) * standing_width(stage.plan, false)),
      MemoryCategory::gradients, label_of(stage, "gradients of experts")));
}

// The reduction of a unit has a result of its own. In the step's first one it becomes the gradient
// of the shard, once it is cast where that has another format; later ones are added to it (torch
// 2.15, FSDP1: fsdp/_runtime_utils.py:901, _get_reduce_scatter_tensors; :917,
// _accumulate_sharded_grad; FSDP2: fsdp/_fully_shard/_fsdp_collectives.py:674, foreach_reduce).
class ReducedResult {
 public:
  ReducedResult(Stage& stage, Wrap& w, StreamIndex stream)
      : stage_(stage), w_(w), stream_(stream), added_(w.gradients.shard_made) {
    const strategy::Plan& plan = stage.plan;
    cast_ = width(plan.precision.gradients) > width(plan.precision.reduce);
    const bool own = plan.parameter_gather.flat
                         ? plan.shard_ranks > 1
                         : !stage.sharded.buffered && stage.sharded.chunks.empty();
    if (own && plan.state_layout.makes_sharded_gradients && (cast_ || added_)) {
      result_ = make(width(plan.precision.reduce));
    } else {
      make_shard(stage, w);
    }
  }
  // `stands`: something else than the sum still refers to the result.
  void add(bool stands = false) {
    const program::BufferIndex wide = added_ && cast_ && result_ != kNone
                                          ? make(width(stage_.plan.precision.gradients))
                                          : program::BufferIndex{kNone};
    make_shard(stage_, w_);
    if (stands && result_ != kNone) {
      stage_.gradients.buffers.push_back(result_);
    } else if (!stage_.plan.parameter_gather.flat && sharing(stage_.plan, false).copies > 1) {
      stage_.builder.release(std::exchange(w_.gradients.over_replicas, result_));
    } else {
      stage_.builder.release(result_);
    }
    stage_.builder.release(wide);
  }

 private:
  program::BufferIndex make(double wide) {
    const double elements =
        shard_gradient_bytes(stage_, w_) / width(stage_.plan.precision.gradients);
    return stage_.builder.allocate(whole_blocks(elements * wide), MemoryCategory::communication,
                                   label_of(stage_, "reduced gradients"), stream_);
  }

  Stage& stage_;
  Wrap& w_;
  StreamIndex stream_;
  bool added_ = false;  // to the gradient of the shard, which a reduction before has made
  bool cast_ = false;
  program::BufferIndex result_ = kNone;
};

// `stands`: a gradient of the unit that arrives for the first time is a view of the result, beside
// others that are added to what stands.
void reduce_wrap(Stage& stage, Wrap& w, bool stands = false) {
  const auto& types = stage.plan.precision;
  const bool beside = reduce_beside(stage.plan);
  const StreamIndex stream = beside ? stage.streams.data : stage.streams.compute;
  Elements count = gradient_elements(stage, w);
  if (loss_in_chunks(stage, w)) {
    count.dense -= w.norm;
  }
  const auto elements = static_cast<double>(count.total());
  const double reduce_bytes = elements * width(types.reduce);
  const double reduced_at_once =
      stage.plan.parameter_gather.by_arrays
          ? static_cast<double>(standing_elements(stage, w)) * width(types.reduce)
          : reduce_bytes;
  const double gradient_bytes = elements * width(stage.plan.style.dtype);
  // FSDP2: one reduce-scatter is in flight, its input is given up before the next is filled.
  const bool flat = stage.plan.parameter_gather.flat;
  if (!flat) {
    stage.builder.wait(stage.streams.compute, stage.sharded.last_reduce);
  }
  // The compute stream has waited for it: FSDP2 records no stream.
  stage.builder.release(stage.sharded.last_reduce_buffer);
  stage.sharded.last_reduce_buffer = kNone;
  const bool in_place = stage.plan.state_layout.gradients_in_parameters ||
                        (flat && types.reduce == stage.plan.style.dtype);
  if (!in_place) {
    // FSDP1 casts a flat gradient on its own stream (torch 2.15, fsdp/_runtime_utils.py:764,
    // _post_backward_hook).
    const StreamIndex copies = flat ? stream : stage.streams.compute;
    if (copies != stage.streams.compute) {
      stage.builder.wait(copies, stage.builder.mark(stage.streams.compute));
      stage.builder.wait(copies, stage.builder.mark(stage.streams.gather));
    }
    stage.sharded.last_reduce_buffer = stage.builder.allocate(
        static_cast<std::int64_t>(reduced_at_once), MemoryCategory::communication,
        label_of(stage, "gradients to reduce"), copies);
    data_kernel(stage, copies, gradient_bytes + reduce_bytes, cost::MemoryOp::copy,
                "copy gradients in");
    const std::uint32_t used = copies != stage.streams.compute ? 1U << copies : 0;
    give_up_fresh(stage, w, used);
    give_up(stage, w.gradients.whole, used);
  }
  ReducedResult result(stage, w, stream);
  // One communicator runs its operations in order of issue.
  stage.builder.wait(stream, stage.builder.mark(stage.streams.gather));
  std::int64_t dense = count.dense;
  if (!stage.sharded.chunks.empty()) {  // whole, once the last gradient is in
    dense = w.persistent;
    for (const Chunk* c : chunks_ended_by(stage, w, true)) {
      dense += c->elements;
    }
  }
  if (const auto pieces = trained_pieces(stage, w); pieces.size() > 1) {
    for (const std::int64_t piece : pieces) {
      reduce_shards(stage, w.chunk, piece, false, stream);
    }
  } else {
    reduce_shards(stage, w.chunk, dense, false, stream);
  }
  reduce_shards(stage, w.chunk, count.expert, true, stream);
  if (stage.plan.parameter_gather.alone) {  // the sum is a copy (_fsdp_collectives.py:692)
    stage.builder.wait(stream, stage.builder.mark(stage.streams.compute));
    data_kernel(stage, stream, 2 * reduce_bytes, cost::MemoryOp::copy, "copy gradients out");
  }
  stage.sharded.last_reduce = stage.builder.mark(stream);
  result.add(stands);
  if (flat) {  // the hook's own variable
    stage.builder.release(stage.sharded.last_reduce_buffer);
    stage.sharded.last_reduce_buffer = kNone;
  }
  give_up_fresh(stage, w, 1U << stage.streams.data);
  give_up(stage, w.gradients.whole, 1U << stage.streams.data);
}

// Gradients go into the bucket one by one as they are made. Those of experts, which have a bucket
// of their own, of tiles, and of passes that wait for the last one, are counted unit by unit.
bool leaves_for_bucket(const Stage& stage, const Wrap& w) {
  return stage.plan.gradient_sync.units_in_buckets && reduces_each_pass(stage.plan) &&
         w.elements.expert == 0 && w.outside == 0 && w.tiled == 0;
}

// DeepSpeed's stage 3 copies gradients into a flat bucket, and reduces it before a parameter would
// overfill it (stage3.py: __add_grad_to_ipg_bucket).
void reduce_in_buckets(Stage& stage, Wrap& w) {
  const auto elements = static_cast<double>(w.elements.total() + w.persistent);
  data_kernel(stage, stage.streams.compute,
              elements * (width(stage.plan.style.dtype) + width(stage.plan.precision.reduce)),
              cost::MemoryOp::copy, "copy gradients in");
  give_up_fresh(stage, w, 0);
  // Of the micro-batches before, where the last one alone reduces.
  give_up(stage, w.gradients.whole, 0);
  make_shard(stage, w);
  const Joined joined = leaves_for_bucket(stage, w) ? Joined::within_pass : Joined::as_sent;
  for (auto u = w.units.rbegin(); u != w.units.rend(); ++u) {
    const auto& arrays = stage.units[w.chunk][*u].passes->arrays;
    for (std::size_t i = arrays.size(); i-- > 0;) {
      if (arrays[i].tiled) {
        continue;
      }
      add_to_bucket(stage, w.chunk, arrays[i].elements, arrays[i].expert, joined);
    }
  }
}

// Autograd joins the gradients of a flat parameter's views, on the stream on which the views were
// made: that of the gathers (torch 2.15, fsdp/_runtime_utils.py:290: _unshard).
void join_gradients(Stage& stage, Wrap& w) {
  if (!stage.plan.parameter_gather.flat || stage.plan.parameter_gather.by_arrays ||
      w.gradients.fresh.empty() || !stage.sharded.chunks.empty()) {
    return;
  }
  const StreamIndex stream =
      gather_beside(stage.plan) ? stage.streams.gather : stage.streams.compute;
  const double bytes =
      static_cast<double>(gradient_elements(stage, w).total()) * width(stage.plan.style.dtype);
  stage.builder.wait(stream, stage.builder.mark(stage.streams.compute));
  const program::BufferIndex joined = stage.builder.allocate(
      whole_blocks(bytes), MemoryCategory::communication, label_of(stage, "flat gradient"), stream);
  data_kernel(stage, stream, 2 * bytes, cost::MemoryOp::copy, "join gradients");
  give_up_fresh(stage, w, 1U << stream);
  w.gradients.fresh.push_back(joined);
}

// Whole gradients wait for the last micro-batch. FSDP1 keeps them in the format of the parameters
// (flat_param.grad). FSDP2 casts those of the first pass to the format of the reduction, one by one
// behind the unit's pass, and keeps autograd's own where that is the same; later passes' are added
// to them as they are made (torch 2.15, fsdp/_fully_shard/_fsdp_param_group.py:934,
// _set_unsharded_grad_dtypes; to 2.7 at least behind the unit's pass: _fsdp_param.py,
// accumulate_unsharded_grad_if_needed).
void ShardedGradients::accumulate_whole(Stage& stage, Wrap& w) {
  WrapGradients& g = w.gradients;
  const bool cast = !stage.plan.parameter_gather.flat &&
                    width(stage.plan.precision.reduce) != width(stage.plan.style.dtype);
  const bool first = g.whole.empty();
  if (first && !cast) {
    g.whole.swap(g.fresh);
    return;
  }
  for (auto fresh = g.fresh.rbegin(); fresh != g.fresh.rend(); ++fresh) {
    const auto list = waiting_of_.find(*fresh);
    if (first && list != waiting_of_.end()) {
      g.whole.push_back(stage.builder.allocate(*list->second, MemoryCategory::gradients,
                                               label_of(stage, "accumulated gradients"), false));
    }
    stage.builder.release(*fresh);
  }
  g.fresh.clear();
}

// FSDP2's final callback lets go of what replicas have summed (torch 2.15,
// fsdp/_fully_shard/_fsdp_param_group.py: finalize_backward).
void finish_reductions(Stage& stage, int chunk) {
  for (Wrap& w : stage.sharded.wraps) {
    if (w.chunk == chunk) {
      stage.builder.release(std::exchange(w.gradients.over_replicas, program::BufferIndex{kNone}));
    }
  }
}

// The runtime's REDUCE_GRAD and RESHARD come behind the send that follows a stage's last backward
// pass (torch.distributed.pipelining, schedules.py).
void ShardedGradients::reduce_due(Stage& stage) {
  for (const int chunk : due_) {
    for (std::size_t i = stage.sharded.wraps.size(); i-- > 0;) {
      Wrap& w = stage.sharded.wraps[i];
      if (w.chunk == chunk) {
        if (!stage.plan.state_layout.gradients_in_parameters) {
          drop_wrap(stage, w, true);
        }
        reduce_wrap(stage, w);
        give_up(stage, w.gradients.whole, 1U << stage.streams.data);
        if (stage.plan.state_layout.gradients_in_parameters) {
          drop_wrap(stage, w, true);
        }
      }
    }
    finish_reductions(stage, chunk);
  }
  due_.clear();
}

Bytes largest_of(const TensorList& list) {
  Bytes out{0};
  for (const program::Block& block : list.blocks) {
    out = std::max(out, block.bytes);
  }
  return out;
}

// Takes a tensor of so many bytes out of a list.
void drop_block(TensorList& list, double bytes) {
  const Bytes whole(whole_blocks(bytes));
  const auto at = std::find_if(list.blocks.begin(), list.blocks.end(), [&](const auto& block) {
    return Bytes(whole_blocks(static_cast<double>(block.bytes.count()))) == whole;
  });
  if (at != list.blocks.end()) {
    list.bytes -= at->bytes.count();
    list.blocks.erase(at);
  }
}

// DTensor makes the gradient of an embedding's whole table on each tensor rank (PassFeature's
// scratch), which is cut to the rank's rows when it is reduced, and waits whole (torch 2.15,
// fsdp/_fully_shard/_fsdp_param.py:1217, _get_grad_inner_tensor). `block` of `made`: the table's.
bool is_whole_table(const Stage& stage, const Wrap& w, std::size_t unit,
                    const program::Block& block, const TensorList& made) {
  return stage.units[static_cast<std::size_t>(w.chunk)][unit].kind == Unit::Kind::embedding &&
         stage.plan.shard.tensor > 1 && stage.plan.tensor_parallel.norm_gradients_apart &&
         !stage.plan.tensor_parallel.local_embedding && block.bytes == largest_of(made);
}

// FSDP1 keeps parameters that stay whole behind the forward pass until a pass that reduces (torch
// 2.15, fsdp/_runtime_utils.py:816, _should_free_in_backward).
bool stays_for_next(const Stage& stage, int chunk) {
  const strategy::ParameterGather& gather = stage.plan.parameter_gather;
  return gather.flat && !gather.by_arrays && !gather.reshard_after_forward &&
         !reduces(stage, chunk);
}

// The block of a gradient whose bytes are counted elsewhere: the allocator's smallest.
Bytes viewed() { return Bytes(whole_blocks(std::int64_t{1})); }

// Gradients that are added to those that wait, each given up behind its hook.
program::BufferIndex ShardedGradients::make_added(Stage& stage, const Wrap& w, std::size_t unit,
                                                  const TensorList& made) {
  const auto [at, fresh] = added_.try_emplace(&made, made);
  for (program::Block& block : at->second.blocks) {
    block.end = hook(block);
    if (fresh && is_whole_table(stage, w, unit, block, made)) {
      block.bytes = viewed();
    }
  }
  return stage.builder.allocate(at->second, MemoryCategory::communication,
                                label_of(stage, "unsharded gradients"), false);
}

// The lists of gradients that are cast one by one behind the unit's pass: as they are made, and as
// they wait. Those of experts in no unit are not among them.
ShardedGradients::OneByOne ShardedGradients::one_by_one(const Stage& stage, const Wrap& w,
                                                        std::size_t unit, const TensorList& made) {
  const double narrow = width(stage.plan.style.dtype);
  const double wide = width(stage.plan.precision.reduce);
  TensorList list = made;
  for (const Array& array : stage.units[static_cast<std::size_t>(w.chunk)][unit].passes->arrays) {
    if (w.outside > 0 && array.expert) {
      drop_block(list, static_cast<double>(array.elements) * narrow);
    }
  }
  OneByOne out;
  for (const program::Block& block : list.blocks) {
    const bool table = is_whole_table(stage, w, unit, block, made);
    const int ranks = table ? stage.plan.shard.tensor : 1;
    const std::int64_t bytes =
        whole_blocks(static_cast<double>(block.bytes.count()) * wide / narrow * ranks);
    out.made.push_back({{block}, block.bytes.count()});
    if (table) {
      out.made.back().blocks.front().bytes = viewed();
    }
    out.waiting.push_back({{{Bytes(bytes), block.label, 0, kPassEnd}}, bytes});
  }
  return out;
}

// On the stream that reduces the bucket.
program::BufferIndex make_copies(Stage& stage, const TensorList& copies) {
  const program::BufferIndex made =
      stage.builder.allocate(copies, MemoryCategory::communication,
                             label_of(stage, "joined gradients of a bucket"), false);
  if (made != kNone && reduce_beside(stage.plan)) {
    stage.builder.program.buffers[made].stream = stage.streams.data;
  }
  return made;
}

void ShardedGradients::make_fresh(Stage& stage, Wrap& w, std::size_t unit) {
  const strategy::ParameterGather& gather = stage.plan.parameter_gather;
  const TensorList& made =
      stage.units[static_cast<std::size_t>(w.chunk)][unit].passes->memory.gradients;
  const program::LabelIndex label = label_of(stage, "unsharded gradients");
  const double narrow = width(stage.plan.style.dtype);
  std::vector<program::BufferIndex>& fresh = w.gradients.fresh;
  if (gather.by_arrays) {  // weights come one by one, and their gradients too
    fresh.push_back(stage.builder.allocate(
        whole_blocks(static_cast<double>(standing_elements(stage, w)) * narrow),
        MemoryCategory::communication, label));
  } else if (leaves_for_bucket(stage, w)) {
    const UnitBucket::Leaving& leaving = bucket_.leaving(stage, w.chunk, made);
    fresh.push_back(
        stage.builder.allocate(leaving.gradients, MemoryCategory::communication, label, false));
    fresh.push_back(make_copies(stage, leaving.copies));
  } else if (!gather.flat && !w.gradients.whole.empty()) {
    adding_ = make_added(stage, w, unit, made);
  } else if (reduces_each_pass(stage.plan) || gather.flat ||
             width(stage.plan.precision.reduce) == narrow) {
    fresh.push_back(stage.builder.allocate(made, MemoryCategory::communication, label, false));
  } else {
    auto at = one_by_one_.find(&made);
    if (at == one_by_one_.end()) {
      at = one_by_one_.emplace(&made, one_by_one(stage, w, unit, made)).first;
    }
    for (std::size_t i = 0; i < at->second.made.size(); ++i) {
      const program::BufferIndex one =
          stage.builder.allocate(at->second.made[i], MemoryCategory::communication, label, false);
      fresh.push_back(one);
      waiting_of_[one] = &at->second.waiting[i];
    }
  }
  std::erase(fresh, kNone);
}

// ---------------------------------------------------------------- hooks
// A flat parameter keeps the gradient of its shard when the optimizer sets those of its views to
// none; the root's next forward pass gives it up (torch 2.15, _runtime_utils.py:594,
// _flat_param.py:2490).
void ShardedGradients::make_states(Stage& stage) {
  const strategy::StateLayout& layout = stage.plan.state_layout;
  if (!wraps(stage) || !layout.makes_sharded_gradients || !layout.sharded_gradients_stand) {
    return;
  }
  for (Wrap& w : stage.sharded.wraps) {
    w.gradients.standing =
        stage.builder.declare(whole_blocks(shard_gradient_bytes(stage, w)),
                              MemoryCategory::gradients, label_of(stage, "sharded gradients"));
    if (w.gradients.standing != kNone) {
      stage.builder.program.buffers[w.gradients.standing].stream = stage.streams.data;
    }
  }
}

void ShardedGradients::before_forward(Stage& stage, int, std::size_t) {
  reduce_due(stage);
  if (wraps(stage) && !begun_) {
    begun_ = true;
    for (const Wrap& w : stage.sharded.wraps) {
      stage.builder.release(w.gradients.standing);
    }
  }
}

void ShardedGradients::after_forward(Stage& stage, int chunk, std::size_t unit) {
  if (!wraps(stage)) {
    return;
  }
  Wrap& w = wrap_of(stage, chunk, unit);
  if (!loss_in_chunks(stage, w)) {
    return;
  }
  close_loss_chunks(stage, w);
  // The loss asks for a reduction behind its last chunk, whatever a runtime of stages does with the
  // others (torchtitan 0.3.0, components/loss.py:743).
  const bool stages = stage.plan.grid.pipeline > 1;
  const Turns& turns = stage.passes.turns[static_cast<std::size_t>(chunk)];
  if (reduces_each_pass(stage.plan) || stages || turns.forwards_begun >= turns.backwards) {
    // The norm's gradients of backward passes before go along, once they have been made.
    const bool norm = stages && w.norm > 0 && turns.backwards_ended > 0;
    reduce_wrap(stage, w, norm && !w.gradients.norm_sent);
    w.gradients.norm_sent = w.gradients.norm_sent || norm;
  }
}

void ShardedGradients::before_backward(Stage& stage, int, std::size_t) { reduce_due(stage); }

// Each weight's gradient is made by the operator that uses the weight: of a split pass in the
// second half, since input gradients of later micro-batches may run in between.
void ShardedGradients::before_weight_gradients(Stage& stage, int chunk, std::size_t unit) {
  if (!wraps(stage) || stage.sharded.buffered || stage.plan.state_layout.gradients_in_parameters) {
    return;
  }
  Wrap& w = wrap_of(stage, chunk, unit);
  if (loss_in_chunks(stage, w)) {
    return;
  }
  make_fresh(stage, w, unit);
}

void ShardedGradients::after_backward(Stage& stage, int chunk, std::size_t unit) {
  if (!wraps(stage) || stage.sharded.buffered) {
    return;
  }
  stage.builder.release(adding_);
  adding_ = kNone;
  Wrap& w = wrap_of(stage, chunk, unit);
  if (unit != w.first()) {
    return;
  }
  join_gradients(stage, w);
  make_outside(stage, w);
  if (loss_in_chunks(stage, w)) {  // the rest is the norm's
    drop_wrap(stage, w, true);
    if (reduces(stage, chunk)) {
      stage.builder.wait(stage.streams.compute, stage.sharded.last_reduce);
      stage.builder.release(stage.sharded.last_reduce_buffer);
      stage.sharded.last_reduce_buffer = kNone;
      reduce_shards(stage, chunk, w.norm, false, stage.streams.data);
    }
    return;
  }
  if (!reduces_each_pass(stage.plan)) {
    // Between stages the runtime neither reduces nor reshards until the last micro-batch is through
    // (torch.distributed.pipelining, stage.py: backward_maybe_with_nosync).
    const bool stages = stage.plan.grid.pipeline > 1;
    if (stages || !last_backward(stage, chunk) || !w.gradients.whole.empty()) {
      accumulate_whole(stage, w);
    }
    if (stages) {
      return;
    }
  }
  const bool reused =
      stage.sharded.chunks.empty() && ((2 * w.before < stage.plan.parameter_gather.reuse_elements &&
                                        !last_backward(stage, chunk)) ||
                                       stays_for_next(stage, chunk));
  const bool first = stage.plan.parameter_gather.reshards_before_reduction && !reused &&
                     !stage.plan.state_layout.gradients_in_parameters;
  if (first && gives_up_behind_next(stage, w)) {
    stage.sharded.used.push_back(stage.sharded.wrap_of[static_cast<std::size_t>(chunk)][unit]);
  } else if (first) {  // FSDP's post_backward: reshard, then reduce
    drop_wrap(stage, w, true);
  }
  if (reduces(stage, chunk)) {
    if (stage.plan.gradient_sync.units_in_buckets) {
      reduce_in_buckets(stage, w);
    } else {
      reduce_wrap(stage, w);
    }
  }
  if (!reused && !first) {
    drop_wrap(stage, w, true);
  }
}

void ShardedGradients::end_of_backward(Stage& stage, int chunk) {
  if (!wraps(stage) || stage.sharded.buffered) {
    return;
  }
  drop_used(stage);
  if (stage.plan.gradient_sync.units_in_buckets && reduces(stage, chunk)) {
    send_bucket(stage, chunk, false, Joined::as_sent);
    send_bucket(stage, chunk, true, Joined::as_sent);
  }
  if (stage.sharded.root > 0 && reduces(stage, chunk)) {
    reduce_shards(stage, chunk, stage.sharded.root, false,
                  reduce_beside(stage.plan) ? stage.streams.data : stage.streams.compute);
  }
  if (!stage.plan.gradient_sync.units_in_buckets &&
      !stage.plan.state_layout.gradients_in_parameters) {
    // FSDP's final callback waits for the last reduction and gives up its input (FSDP2:
    // _fsdp_state.py, _root_post_backward_final_callback), between stages that of the last pass
    // alone (torch 2.15, pipelining/stage.py: set_manual_backward_finalization).
    stage.builder.wait(stage.streams.compute, stage.sharded.last_reduce);
    if (stage.plan.grid.pipeline == 1 || last_backward(stage, chunk)) {
      stage.builder.release(stage.sharded.last_reduce_buffer);
      stage.sharded.last_reduce_buffer = kNone;
      finish_reductions(stage, chunk);
    }
  }
  if (stage.plan.grid.pipeline == 1 || reduces_each_pass(stage.plan) ||
      !last_backward(stage, chunk)) {
    return;
  }
  due_.push_back(chunk);
}

void ShardedGradients::end_of_step(Stage& stage, StepEnd part) {
  if (part != StepEnd::reduce || !wraps(stage)) {
    return;
  }
  reduce_due(stage);
  stage.builder.wait(stage.streams.compute, stage.builder.mark(stage.streams.data));
  if (stage.streams.replicas != 0) {
    stage.builder.wait(stage.streams.compute, stage.builder.mark(stage.streams.replicas));
  }
}

}  // namespace

std::unique_ptr<Feature> make_sharded_gradients() { return std::make_unique<ShardedGradients>(); }

}  // namespace stepcast::lower
