// Gradients in buckets: replicated states, ZeRO-1 and ZeRO-2.
#include "buckets.h"

#include <algorithm>
#include <map>
#include <utility>

#include "../stage/feature_list.h"
#include "../state/states.h"
#include "../tensors/unit_tensors.h"
#include "flat_gradients.h"
#include "horovod.h"
#include "parameter_formats.h"
#include "passing_buckets.h"

namespace stepcast::lower {

using cost::Collective;
using program::Category;
using program::MemoryCategory;
using program::StreamIndex;
using strategy::DataComm;

// Megatron-LM cuts only the first chunk of the first stage; the others are hidden behind other
// stages' passes.
bool bucketed(const Stage& stage, int chunk) {
  return !stage.plan.gradient_sync.first_stage_only || (stage.number == 0 && chunk == 0);
}

// Without overlap a chunk's gradients are sent when the step's backward passes are done, whole or,
// as DeepSpeed does, in buckets.
bool sends_as_it_goes(const strategy::Plan& plan) { return plan.gradient_sync.sends_as_filled; }

bool always_in_buckets(const strategy::Plan& plan) { return plan.gradient_sync.always_in_buckets; }

std::uint16_t hook(const program::Block& gradient) {
  return static_cast<std::uint16_t>(gradient.begin + static_cast<int>(Step::sum) -
                                    static_cast<int>(Step::first));
}

// Of another format than the weights' alone where autocast casts them.
bool made_by_operators(const strategy::Plan& plan) {
  const bool own_format =
      plan.style.autocast || width(plan.precision.gradients) == width(plan.style.dtype);
  return !plan.state_layout.gradients_stand && !plan.parameter_gather.by_units &&
         !fills_passing_buckets(plan) && !plan.optimizer_step.in_backward && own_format;
}

bool fills_passing_buckets(const strategy::Plan& plan) {
  return !plan.state_layout.gradients_stand && plan.gradient_sync.storage == BucketStorage::flat;
}

namespace {

void host_copy(Stage& stage, StreamIndex stream, double bytes, cost::CopyDirection direction,
               const char* label) {
  const cost::Priced priced =
      stage.context.passes.kernels->copy(direction, true, Bytes(static_cast<std::int64_t>(bytes)));
  program::Task& t = stage.builder.kernel(stream, priced.time, priced.curve, Category::data,
                                          label_of(stage, label), stage.host.launch);
  t.slowdown = 0;
}

// NCCL in the node, MPI on the hosts between nodes (nccl_operations.cc:
// NCCLHierarchicalAllreduce).
void reduce_in_two_levels(Stage& stage, int shards, double bytes, StreamIndex stream) {
  const int inner = node_share(stage.plan);
  const double share = bytes / inner;
  if (inner > 1) {
    data_collective(stage, stream, kNode, Collective::reduce_scatter, bytes, "gradients");
  }
  if (inner < shards) {
    host_copy(stage, stream, share, cost::CopyDirection::device_to_host, "gradients to the host");
    data_collective(stage, stream, kAcross, Collective::all_reduce, share, "gradients");
    host_copy(stage, stream, share, cost::CopyDirection::host_to_device, "gradients from the host");
  }
  if (inner > 1) {
    data_collective(stage, stream, kNode, Collective::all_gather, bytes, "gradients");
  }
}

void reduce_gradients(Stage& stage, int chunk, std::int64_t elements, bool expert,
                      StreamIndex stream) {
  const Sharing s = sharing(stage.plan, expert);
  if (elements <= 0) {
    return;
  }
  const double kept = static_cast<double>(elements) /
                      (expert ? strategy::expert_shards(stage.plan) : stage.plan.shard_ranks);
  const auto reduced = [&](StreamIndex behind) {
    each<&Feature::gradients_reduced>(stage, ReducedGradients{kept, behind, chunk});
  };
  if (s.members() == 1) {
    reduced(stage.streams.compute);
    return;
  }
  const double bytes = static_cast<double>(elements) * width(stage.plan.precision.reduce);
  const double copied =
      bytes + static_cast<double>(elements) * width(stage.plan.precision.gradients);
  const bool ticks = leaves_at_ticks(stage, stream);
  if (ticks) {
    wait_for_tick(stage, stream, copied);
  } else {
    stage.builder.wait(stream, stage.builder.mark(stage.streams.compute));
  }
  using Operation = strategy::GradientSync::Operation;
  const strategy::GradientSync& sync = stage.plan.gradient_sync;
  const bool whole = sync.operation == Operation::all_reduce;
  const bool over_copies = s.copies > 1 && sums_over_copies(stage.plan);
  if (over_copies) {
    data_collective(stage, stream, s.all, Collective::all_reduce, bytes, "gradients");
  } else if (sync.hierarchical && !expert && whole) {
    reduce_in_two_levels(stage, s.shards, bytes, stream);
  } else {
    const Collective op = whole                                 ? Collective::all_reduce
                          : sync.operation == Operation::reduce ? Collective::reduce
                                                                : Collective::reduce_scatter;
    data_collective(stage, stream, s.group, op, bytes, "gradients");
  }
  if (s.copies > 1 && !over_copies) {
    data_collective(stage, stream, s.replicas, Collective::all_reduce, bytes / s.shards,
                    "gradients");
  }
  if (ticks) {
    leave_fusion_buffer(stage, stream, copied);
  }
  reduced(stream);
}

}  // namespace

void flush_gradients(Stage& stage, int chunk, StreamIndex stream) {
  Elements& pending = stage.gradients.pending[chunk];
  reduce_gradients(stage, chunk, pending.dense, false, stream);
  reduce_gradients(stage, chunk, pending.expert, true, stream);
  pending = {};
}

namespace {

// DDP without gradient_as_bucket_view: into the bucket, and back when the reduction is done
// (reducer.cpp).
bool copies_into_buckets(const Stage& stage) {
  return travels(stage) && !wraps(stage) && stage.plan.gradient_sync.copies_into_buckets();
}

class Buckets final : public Feature {
 public:
  void make_streams(Stage& stage) override;
  void make_workspaces(Stage& stage) override;
  void before_forward(Stage& stage, int chunk, std::size_t unit) override;
  void before_weight_gradients(Stage& stage, int chunk, std::size_t unit) override;
  void after_backward(Stage& stage, int chunk, std::size_t unit) override;
  void end_of_backward(Stage& stage, int chunk) override;
  void backward_ended(Stage& stage, int chunk) override;
  void end_of_step(Stage& stage, StepEnd part) override;

 private:
  void fill(Stage& stage, int chunk, std::size_t unit);
  void flatten(Stage& stage, std::int64_t elements);
  void make_gradients(Stage& stage, int chunk, std::size_t unit);
  void reduce_what_is_left(Stage& stage);

  std::vector<bool> sent_;  // by chunk: a bucket, in this backward pass
  struct Later {
    int pass = 0;  // backward pass of the rank behind which it leaves
    int chunk = 0;
  };
  std::vector<Later> later_;  // aligned reductions (Megatron-LM's align_grad_reduce)
  int backwards_ = 0;         // of this rank so far
  PassingBuckets passing_;
  // By chunk and unit: gradients that are no views of buckets yet.
  std::map<std::pair<int, std::size_t>, program::BufferIndex> beside_;
  program::BufferIndex flattened_ = program::kNone;  // the bucket sent last, as one tensor
  std::map<const Passes*, TensorList> gradients_;    // of a unit, array by array
};

void Buckets::make_streams(Stage& stage) {
  sent_.assign(stage.units.size(), false);
  passing_.begin(stage);
  if (travels(stage) && !wraps(stage)) {
    stage.streams.data = stage.builder.stream("data");
  }
}

// Each bucket is a tensor: DDP's hold whole arrays, last to first. `wide`: bytes of an element.
program::BufferIndex hold_buckets(Stage& stage, double wide) {
  const auto id = stage.builder.persistent(
      whole_blocks(static_cast<double>(stage.parameters.trained.total()) * wide),
      MemoryCategory::communication, label_of(stage, "gradient buckets"));
  if (id == program::kNone) {
    return id;
  }
  program::Buffer& buffer = stage.builder.program.buffers[id];
  std::vector<Array> arrays = stage_arrays(stage);
  std::reverse(arrays.begin(), arrays.end());
  std::vector<std::int64_t> sizes = {0};
  for (const Array& a : arrays) {
    const std::int64_t first = stage.plan.gradient_sync.first_bucket_elements;
    const std::int64_t limit =
        sizes.size() == 1 && first > 0 ? first : stage.plan.gradient_sync.bucket_elements;
    sizes.back() += a.elements;
    if (sizes.back() >= limit) {
      sizes.push_back(0);
    }
  }
  auto& blocks = stage.builder.program.blocks;
  buffer.first_block = static_cast<std::uint32_t>(blocks.size());
  std::int64_t bytes = 0;
  for (const std::int64_t elements : sizes) {
    if (elements > 0) {
      const std::int64_t size = whole_blocks(static_cast<double>(elements) * wide);
      blocks.push_back({Bytes(size), buffer.label});
      bytes += size;
    }
  }
  buffer.blocks = static_cast<std::uint32_t>(blocks.size()) - buffer.first_block;
  buffer.bytes = Bytes(bytes);
  return id;
}

// DDP's first step has one bucket; ahead of the second one they are made anew, in the order in
// which gradients came (torch 2.15, nn/parallel/distributed.py:153: bucket_size_limits;
// csrc/distributed/c10d/reducer.cpp: rebuild_buckets).
void rebuild_buckets(Stage& stage, program::BufferIndex held) {
  if (held != program::kNone) {
    program::Buffer& buckets = stage.builder.program.buffers[held];
    buckets.later = true;
    stage.builder.program.first_step_extra += buckets.bytes;
  }
}

// Gradients on their way to the host pass through a tensor of the largest parameter's size
// (DeepSpeed 0.19.8 runtime/zero/stage_1_and_2.py:659: temp_grad_buffer_for_gpu_offload).
void hold_passage_to_host(Stage& stage) {
  std::int64_t largest = 0;
  for (const Array& a : stage_arrays(stage)) {
    largest = std::max(largest, a.elements);
  }
  stage.builder.persistent(
      whole_blocks(static_cast<double>(largest) * width(stage.plan.style.dtype)),
      MemoryCategory::communication, label_of(stage, "gradient on its way to the host"));
}

void Buckets::make_workspaces(Stage& stage) {
  if (passing(stage) && stage.plan.offload.gradients.share() > 0) {
    hold_passage_to_host(stage);
  }
  if (passing(stage) || stage.plan.gradient_sync.bucket_of_pass) {
    return;
  }
  if (stage.plan.gradient_sync.narrow_beside && travels(stage) && !wraps(stage)) {
    hold_buckets(stage, standing_width(stage.plan, false));
    return;
  }
  const strategy::GradientSync& sync = stage.plan.gradient_sync;
  if (sync.storage == BucketStorage::standing && sync.cycle_time.count() == 0 && travels(stage) &&
      !wraps(stage)) {
    rebuild_buckets(stage, hold_buckets(stage, width(stage.plan.precision.reduce)));
    return;
  }
  stage.builder.persistent(whole_blocks(bucket_buffers(stage) * width(stage.plan.precision.reduce)),
                           MemoryCategory::communication, label_of(stage, "gradient buckets"));
}

// DDP's buffers are Llama's frequencies and their originals, one of each pair of a head's
// dimensions (torch 2.15, nn/parallel/distributed.py: _sync_buffers; transformers,
// LlamaRotaryEmbedding); under no_sync they stay as the step's first pass found them.
void Buckets::before_forward(Stage& stage, int chunk, std::size_t unit) {
  const bool due = reduces_each_pass(stage.plan) ||
                   stage.passes.turns[static_cast<std::size_t>(chunk)].forwards_begun == 1;
  if (!stage.plan.gradient_sync.broadcasts_buffers || !travels(stage) || wraps(stage) ||
      unit != 0 || !due) {
    return;
  }
  const double pairs = stage.plan.model.head_dim / 2.0;
  data_collective(stage, stage.streams.compute, sharing(stage.plan, false).group,
                  Collective::broadcast, 2 * pairs * width(stage.plan.precision.frozen), "buffers");
}

void Buckets::before_weight_gradients(Stage& stage, int chunk, std::size_t unit) {
  passing_.before_weight_gradients(stage, chunk, unit);
}

}  // namespace

TensorList gradients_of(const Passes& passes, double wide, program::LabelIndex label) {
  std::int64_t elements = 0;
  TensorList out;
  const auto add = [&](std::int64_t count) {
    const std::int64_t bytes = whole_blocks(static_cast<double>(count) * wide);
    if (bytes > 0) {
      out.blocks.push_back({Bytes(bytes), label, 0, kPassEnd});
      out.bytes += bytes;
    }
  };
  for (const Array& array : passes.arrays) {
    add(array.elements);
    elements += array.elements;
  }
  if (elements != passes.parameters.trained.total()) {
    out = {};
    add(passes.parameters.trained.total());
  }
  return out;
}

namespace {

// Gradients of a unit, made by a step's first backward pass, by each where every pass reduces them.
void Buckets::make_gradients(Stage& stage, int chunk, std::size_t unit) {
  if (stage.plan.state_layout.gradients_stand || made_by_operators(stage.plan)) {
    return;
  }
  const Passes& passes = *stage.units[chunk][unit].passes;
  const auto [list, fresh] = gradients_.try_emplace(&passes);
  if (fresh) {
    list->second =
        gradients_of(passes, width(stage.plan.precision.gradients), label_of(stage, "gradients"));
  }
  const auto make = [&] {
    return stage.builder.allocate(list->second, MemoryCategory::gradients,
                                  label_of(stage, "gradients"), false);
  };
  if (passing(stage)) {
    passing_.hold(stage, chunk, unit, list->second);
    return;
  }
  if (stage.plan.optimizer_step.in_backward) {
    // One at a time: the unit's largest stands for all.
    std::int64_t largest = 0;
    for (const Array& array : passes.arrays) {
      largest = std::max(largest, array.elements);
    }
    stage.builder.release(stage.builder.allocate(
        whole_blocks(static_cast<double>(largest) * width(stage.plan.precision.gradients)),
        MemoryCategory::gradients, label_of(stage, "gradients")));
    return;
  }
  const bool in_buckets = stage.plan.gradient_sync.live_in_buckets && travels(stage);
  const bool first = stage.passes.turns[chunk].backwards_ended == 0;
  if (in_buckets) {
    // Set to none, they are no views until a pass that reduces them copies them there (torch 2.15,
    // csrc/distributed/c10d/reducer.cpp: mark_variable_ready_dense).
    if (first && !reduces(stage, chunk)) {
      beside_[{chunk, unit}] = make();
    } else if (reduces(stage, chunk)) {
      const auto at = beside_.find({chunk, unit});
      if (at != beside_.end()) {
        stage.builder.release(at->second);
        beside_.erase(at);
      }
    }
  } else if (first) {
    stage.gradients.buffers.push_back(make());
  }
}

// Gradients that stay where they were made are copied into one tensor to be sent, which is copied
// back when the next bucket is under way (InternEvo 0.4.9,
// solver/optimizer/hybrid_zero_optim.py:494, _reduce_grads_by_rank; also where a rank is alone).
void Buckets::flatten(Stage& stage, std::int64_t elements) {
  const strategy::GradientSync& sync = stage.plan.gradient_sync;
  if (sync.storage != BucketStorage::as_made || !sync.always_in_buckets || elements <= 0) {
    return;
  }
  const program::BufferIndex next = stage.builder.allocate(
      whole_blocks(static_cast<double>(elements) * width(stage.plan.precision.reduce)),
      MemoryCategory::communication, label_of(stage, "flat gradients of a bucket"));
  stage.builder.release(flattened_);
  flattened_ = next;
}

void Buckets::fill(Stage& stage, int chunk, std::size_t unit) {
  const StreamIndex stream = reduce_beside(stage.plan) ? stage.streams.data : stage.streams.compute;
  Elements& pending = stage.gradients.pending[chunk];
  const Passes& passes = *stage.units[chunk][unit].passes;
  if (!bucketed(stage, chunk) || !(sends_as_it_goes(stage.plan) || always_in_buckets(stage.plan))) {
    pending += passes.parameters.trained;
    return;
  }
  const strategy::GradientSync& sync = stage.plan.gradient_sync;
  const std::int64_t bucket = sync.bucket_elements;
  const std::int64_t first = sync.first_bucket_elements;
  // Arrays get their gradients last to first. Buckets hold whole arrays.
  for (std::size_t i = passes.arrays.size(); i-- > 0;) {
    const Array& array = passes.arrays[i];
    std::int64_t& filled = array.expert ? pending.expert : pending.dense;
    const std::int64_t limit = first > 0 && !sent_[chunk] ? first : bucket;
    const auto send = [&] {
      flatten(stage, filled);
      reduce_gradients(stage, chunk, filled, array.expert, stream);
      sent_[chunk] = true;
      filled = 0;
    };
    if (sync.bucket_before_overflow && filled > 0 && filled + array.elements > limit) {
      send();
    }
    filled += array.elements;
    if (!sync.bucket_before_overflow && filled >= limit) {
      send();
    }
  }
}

void Buckets::after_backward(Stage& stage, int chunk, std::size_t unit) {
  if (wraps(stage)) {
    return;
  }
  const Passes& passes = *stage.units[chunk][unit].passes;
  const auto elements = static_cast<double>(passes.parameters.trained.total());
  const double wide = width(stage.plan.precision.gradients);
  make_gradients(stage, chunk, unit);
  passing_.backward_passed(stage, chunk, unit);
  if (!reduces(stage, chunk)) {
    return;
  }
  if (copies_into_buckets(stage)) {
    data_kernel(stage, stage.streams.compute, 2 * elements * wide, cost::MemoryOp::copy,
                "copy gradients into buckets");
  }
  if (sends_as_it_goes(stage.plan) || !always_in_buckets(stage.plan)) {
    fill(stage, chunk, unit);
    passing_.hand_over(stage, chunk, unit);
  }
}

// What did not overlap, behind the step's backward passes.
void Buckets::reduce_what_is_left(Stage& stage) {
  for (std::size_t c = stage.units.size(); c-- > 0;) {
    const int chunk = static_cast<int>(c);
    if (always_in_buckets(stage.plan) && !sends_as_it_goes(stage.plan)) {
      for (std::size_t u = stage.units[c].size(); u-- > 0;) {
        fill(stage, chunk, u);
        passing_.hand_over(stage, chunk, u);
      }
    }
    flatten(stage, stage.gradients.pending[chunk].total());
    flush_gradients(stage, chunk, stage.streams.compute);
  }
  stage.builder.release(flattened_);
  flattened_ = program::kNone;
  passing_.give_up(stage);
}

void Buckets::end_of_backward(Stage& stage, int chunk) {
  if (wraps(stage) || !reduces(stage, chunk) || !sends_as_it_goes(stage.plan)) {
    return;
  }
  const bool aligned = stage.plan.gradient_sync.aligned && stage.plan.interleaved &&
                       reduce_beside(stage.plan) && last_backward(stage, chunk) && stage.number > 0;
  if (aligned) {
    // Stages reach a chunk's last micro-batch one pass after another; each waits for the first
    // (pipeline_parallel/schedules.py: grad_sync_virtual_microbatch_id).
    later_.push_back({backwards_ + 1 + stage.number, chunk});
  } else {
    flush_gradients(stage, chunk,
                    reduce_beside(stage.plan) ? stage.streams.data : stage.streams.compute);
    if (stage.plan.gradient_sync.bucket_of_pass) {
      stage.builder.wait(stage.streams.compute, stage.builder.mark(stage.streams.data));
    }
    passing_.give_up(stage);
  }
}

void Buckets::backward_ended(Stage& stage, int chunk) {
  widen_pass_gradients(stage);
  sent_[static_cast<std::size_t>(chunk)] = false;
  ++backwards_;
  while (!later_.empty() && later_.front().pass <= backwards_) {
    flush_gradients(stage, later_.front().chunk, stage.streams.data);
    later_.erase(later_.begin());
  }
}

void Buckets::end_of_step(Stage& stage, StepEnd part) {
  if (part != StepEnd::reduce || wraps(stage)) {
    return;
  }
  if (!travels(stage)) {
    if (always_in_buckets(stage.plan) && !sends_as_it_goes(stage.plan)) {
      reduce_what_is_left(stage);
    }
    return;
  }
  for (const Later& later : later_) {
    flush_gradients(stage, later.chunk, stage.streams.data);
  }
  later_.clear();
  stage.builder.wait(stage.streams.compute, stage.builder.mark(stage.streams.data));
  const std::vector<program::BufferIndex> casts = cast_flat_gradients(stage);
  reduce_what_is_left(stage);
  for (const program::BufferIndex cast : casts) {
    stage.builder.release(cast);
  }
  if (copies_into_buckets(stage)) {
    const auto elements = static_cast<double>(stage.parameters.trained.total());
    data_kernel(stage, stage.streams.compute, 2 * elements * width(stage.plan.precision.gradients),
                cost::MemoryOp::copy, "copy gradients out of buckets");
  }
}

}  // namespace

std::unique_ptr<Feature> make_buckets() { return std::make_unique<Buckets>(); }

}  // namespace stepcast::lower
