// Gradients in buckets: replicated states, ZeRO-1 and ZeRO-2.
#include "buckets.h"

#include <algorithm>
#include <map>
#include <utility>

#include "../stage/feature_list.h"
#include "../state/states.h"
#include "../tensors/unit_tensors.h"
#include "horovod.h"
#include "parameter_formats.h"

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
  void hand_over(Stage& stage, int chunk, std::size_t unit);
  void give_up_bucket(Stage& stage);
  void open_bucket_of_pass(Stage& stage, int chunk, const Passes& passes);
  void reduce_what_is_left(Stage& stage);
  std::vector<program::BufferIndex> cast_flat_gradients(Stage& stage) const;

  std::vector<bool> sent_;  // by chunk: a bucket, in this backward pass
  struct Later {
    int pass = 0;  // backward pass of the rank behind which it leaves
    int chunk = 0;
  };
  std::vector<Later> later_;  // aligned reductions (Megatron-LM's align_grad_reduce)
  int backwards_ = 0;         // of this rank so far
  std::vector<std::vector<program::BufferIndex>>
      made_;  // by chunk and unit: gradients to be copied
  program::BufferIndex bucket_ = program::kNone;
  program::BufferIndex flattened_ = program::kNone;  // the bucket sent last, as one tensor
  bool partitioned_ = false;                         // the shard of reduced gradients exists
  std::map<const Passes*, TensorList> gradients_;    // of a unit, array by array
  // Likewise, each up to its copy in a bucket, by the bytes that are in the bucket already; and
  // those that are in it behind the unit.
  struct Leaving {
    TensorList list;
    std::int64_t left = 0;
    TensorList last;  // the pass's last gradient, if it is larger than a bucket
  };
  const Leaving& leaving(Stage& stage, const Passes& passes, bool ends);
  std::map<std::pair<const Passes*, std::int64_t>, Leaving> leaving_;
  std::int64_t in_bucket_ = 0;
  program::BufferIndex last_ = program::kNone;  // the pass's last gradient, which goes by itself
  TensorList bucket_list_;                      // the bucket, behind a step's first gradient
};

void Buckets::make_streams(Stage& stage) {
  sent_.assign(stage.units.size(), false);
  made_.clear();
  for (const auto& units : stage.units) {
    made_.push_back(
        std::vector<program::BufferIndex>(units.size(), program::BufferIndex{program::kNone}));
  }
  if (travels(stage) && !wraps(stage)) {
    stage.streams.data = stage.builder.stream("data");
  }
}

bool passing(const Stage& stage) {
  return travels(stage) && !wraps(stage) && fills_passing_buckets(stage.plan);
}

// ZeRO-2 copies a gradient into the bucket as soon as it is there.
bool leaves_at_once(const Stage& stage, int chunk) {
  return reduces(stage, chunk) && sends_as_it_goes(stage.plan);
}

// Elements of the buffers where gradients are copied to be sent: DDP's buckets, Horovod's fusion
// buffer, DeepSpeed's flat buckets, two of them when reduction overlaps. DeepSpeed's are as large
// as a bucket may be, however few gradients there are (0.19.8, runtime/zero/stage_1_and_2.py:3266;
// stage3.py:782).
double bucket_buffers(const Stage& stage) {
  const strategy::GradientSync& sync = stage.plan.gradient_sync;
  const auto most = static_cast<double>(sync.bucket_elements);
  if (!travels(stage)) {
    return 0;
  }
  if (wraps(stage)) {
    return sync.units_in_buckets ? most : 0;
  }
  if (sync.casts_flat_gradients) {
    return 0;
  }
  const bool whole = sync.storage == BucketStorage::flat;
  const double bucket =
      whole ? most : std::min(most, static_cast<double>(stage.parameters.trained.total()));
  if (stage.plan.gradient_sync.cycle_time.count() > 0) {
    return bucket;
  }
  // Megatron-LLaMA's buckets stand apart as well: its gradients are kept in shards.
  const bool flat = (sync.storage == BucketStorage::flat && stage.plan.shard_ranks > 1) ||
                    (sync.storage == BucketStorage::main_gradients &&
                     stage.plan.data_comm == DataComm::shard_grads);
  return flat ? bucket * (reduce_beside(stage.plan) ? 2 : 1) : 0;
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

void Buckets::make_workspaces(Stage& stage) {
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

// Behind an operator its gradient's hook copies it into the bucket and gives it up. What would
// overfill the bucket has it reduced first, in a copy (DeepSpeed 0.19.8,
// runtime/zero/stage_1_and_2.py:1422; :2358, allreduce_bucket: flatten); a gradient larger than a
// bucket goes by itself when the next one comes (:1446).
const Buckets::Leaving& Buckets::leaving(Stage& stage, const Passes& passes, bool ends) {
  const TensorList& made = passes.memory.gradients;
  const double wide = width(stage.plan.precision.gradients);
  const auto bucket = static_cast<std::int64_t>(
      static_cast<double>(stage.plan.gradient_sync.bucket_elements) * wide);
  const auto [at, fresh] = leaving_.try_emplace({&passes, in_bucket_});
  Leaving& out = at->second;
  if (fresh) {
    out.list = made;
    out.left = in_bucket_;
    for (std::size_t n = 0; n < made.blocks.size(); ++n) {
      const program::Block& one = made.blocks[n];
      const std::int64_t bytes = one.bytes.count();
      if (out.left > 0 && out.left + bytes > bucket) {
        out.list.blocks.push_back(
            {Bytes(out.left), label_of(stage, "flat copy of a bucket"), hook(one), hook(one)});
        out.left = 0;
      }
      out.left += bytes;
      const std::size_t behind = n + (bytes > bucket ? 1 : 0);
      out.list.blocks[n].end = behind < made.blocks.size() ? hook(made.blocks[behind]) : kPassEnd;
    }
    if (ends && !made.blocks.empty() && made.blocks.back().bytes.count() > bucket) {
      out.last.blocks = {made.blocks.back()};
      out.last.bytes = out.last.blocks.front().bytes.count();
      out.list.blocks.erase(out.list.blocks.begin() +
                            static_cast<std::ptrdiff_t>(made.blocks.size() - 1));
      out.list.bytes -= out.last.bytes;
      out.left -= out.last.bytes;
    }
  }
  in_bucket_ = out.left;
  return out;
}

// Megatron-FSDP's first gradient of a backward pass makes the bucket, which goes behind the pass
// (megatron-core 0.16.1, distributed/fsdp/src/megatron_fsdp/megatron_fsdp.py: _grad_acc,
// _root_post_backward).
void Buckets::open_bucket_of_pass(Stage& stage, int chunk, const Passes& passes) {
  if (!stage.plan.gradient_sync.bucket_of_pass || bucket_ != program::kNone || !travels(stage) ||
      wraps(stage)) {
    return;
  }
  if (bucket_list_.blocks.empty()) {
    double elements = 0;
    for (const Unit& u : stage.units[static_cast<std::size_t>(chunk)]) {
      elements += static_cast<double>(u.passes->parameters.trained.total());
    }
    const bool head = passes.head.loss.value_or(0) > 0;
    // The hook of the output's weight runs once the gradient of its result is given up.
    const std::size_t place = head ? passes.operators - *passes.head.loss : 0;
    const auto from = static_cast<std::uint16_t>(
        head ? first_place(place) + static_cast<std::size_t>(Step::sum) : 0);
    const std::int64_t bytes = whole_blocks(elements * width(stage.plan.precision.reduce));
    bucket_list_ = {{{Bytes(bytes), label_of(stage, "gradient buckets"), from, kPassEnd}}, bytes};
  }
  bucket_ = stage.builder.allocate(bucket_list_, MemoryCategory::communication,
                                   label_of(stage, "gradient buckets"), false);
}

// Gradients of passing buckets are made by their operators, and the bucket behind the first of them
// (DeepSpeed 0.19.8, runtime/zero/stage_1_and_2.py:2285, process_gradients). One that leaves at
// once is copied into the bucket by the hook behind its operator, and given up; one that is larger
// than a bucket is reduced when the next one comes (:1425).
void Buckets::before_weight_gradients(Stage& stage, int chunk, std::size_t unit) {
  const Passes& passes = *stage.units[chunk][unit].passes;
  open_bucket_of_pass(stage, chunk, passes);
  const TensorList& made = passes.memory.gradients;
  if (!passing(stage) || made.blocks.empty() || made_[chunk][unit] != program::kNone) {
    return;
  }
  const TensorList* list = &made;
  if (leaves_at_once(stage, chunk)) {
    const Leaving& leaves = leaving(stage, passes, unit == 0);
    list = &leaves.list;
    last_ = stage.builder.allocate(leaves.last, MemoryCategory::gradients,
                                   label_of(stage, "gradients"), false);
  }
  if (bucket_ == program::kNone) {
    const std::int64_t bytes =
        whole_blocks(bucket_buffers(stage) * width(stage.plan.precision.reduce));
    if (bucket_list_.blocks.empty()) {
      bucket_list_.blocks = {
          {Bytes(bytes), label_of(stage, "gradient buckets"), hook(made.blocks.front()), kPassEnd}};
      bucket_list_.bytes = bytes;
    }
    bucket_ = stage.builder.allocate(bucket_list_, MemoryCategory::communication,
                                     label_of(stage, "gradient buckets"), false);
  }
  made_[chunk][unit] =
      stage.builder.allocate(*list, MemoryCategory::gradients, label_of(stage, "gradients"), false);
}

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
    if (bucket_ == program::kNone) {
      bucket_ = stage.builder.allocate(
          whole_blocks(bucket_buffers(stage) * width(stage.plan.precision.reduce)),
          MemoryCategory::communication, label_of(stage, "gradient buckets"));
    }
    if (made_[chunk][unit] == program::kNone) {
      made_[chunk][unit] = make();
    }
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
      made_[chunk][unit] = make();
    } else if (reduces(stage, chunk)) {
      stage.builder.release(made_[chunk][unit]);
      made_[chunk][unit] = program::kNone;
    }
  } else if (first) {
    stage.gradients.buffers.push_back(make());
  }
}

// Elements of the gradients that the first rank keeps: of every array that its part of the states
// reaches into, as a whole (DeepSpeed 0.19.8, runtime/zero/stage_1_and_2.py:2192,
// copy_grads_in_partition).
double partition_elements(const Stage& stage) {
  const double part = shard_elements(stage.plan, stage.parameters.trained);
  double whole = 0;
  for (const Array& array : stage_arrays(stage)) {
    if (whole >= part) {
      break;
    }
    whole += static_cast<double>(array.elements);
  }
  return std::max(whole, part);
}

// A unit's gradients are in the bucket; what this rank keeps of the reduced ones has a tensor of
// its own until the step.
void Buckets::hand_over(Stage& stage, int chunk, std::size_t unit) {
  if (!passing(stage)) {
    return;
  }
  // A last gradient that is larger than a bucket is reduced behind the pass, in a copy
  // (stage_1_and_2.py:1422, reduce_ipg_grads).
  if (last_ != program::kNone) {
    const std::int64_t bytes = stage.builder.program.buffers[last_].bytes.count();
    stage.builder.release(stage.builder.allocate(bytes, MemoryCategory::communication,
                                                 label_of(stage, "flat copy of a bucket")));
  }
  // The rank that holds the first arrays keeps theirs, the last that are reduced. Those of a later
  // pass are added to it (:2192, copy_grads_in_partition).
  program::BufferIndex added = program::kNone;
  if (stage.plan.shard_ranks > 1 && unit == 0) {
    added = stage.builder.allocate(
        whole_blocks(partition_elements(stage) * width(stage.plan.precision.gradients)),
        MemoryCategory::gradients, label_of(stage, "partition of gradients"));
    if (!partitioned_) {
      partitioned_ = true;
      stage.gradients.buffers.push_back(added);
      added = program::kNone;
    }
  }
  for (program::BufferIndex* const given_up : {&made_[chunk][unit], &last_, &added}) {
    stage.builder.release(*given_up);
    *given_up = program::kNone;
  }
}

void Buckets::give_up_bucket(Stage& stage) {
  in_bucket_ = 0;
  stage.builder.release(bucket_, reduce_beside(stage.plan) ? 1U << stage.streams.data : 0);
  bucket_ = program::kNone;
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
  if (passing(stage) && leaves_at_once(stage, chunk)) {
    stage.builder.release(made_[chunk][unit]);
    made_[chunk][unit] = program::kNone;
  }
  if (!reduces(stage, chunk)) {
    return;
  }
  if (copies_into_buckets(stage)) {
    data_kernel(stage, stage.streams.compute, 2 * elements * wide, cost::MemoryOp::copy,
                "copy gradients into buckets");
  }
  if (sends_as_it_goes(stage.plan) || !always_in_buckets(stage.plan)) {
    fill(stage, chunk, unit);
    hand_over(stage, chunk, unit);
  }
}

// What did not overlap, behind the step's backward passes.
void Buckets::reduce_what_is_left(Stage& stage) {
  for (std::size_t c = stage.units.size(); c-- > 0;) {
    const int chunk = static_cast<int>(c);
    if (always_in_buckets(stage.plan) && !sends_as_it_goes(stage.plan)) {
      for (std::size_t u = stage.units[c].size(); u-- > 0;) {
        fill(stage, chunk, u);
        hand_over(stage, chunk, u);
      }
    }
    flatten(stage, stage.gradients.pending[chunk].total());
    flush_gradients(stage, chunk, stage.streams.compute);
  }
  stage.builder.release(flattened_);
  flattened_ = program::kNone;
  give_up_bucket(stage);
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
    give_up_bucket(stage);
  }
}

// BF16_Optimizer hands out its flat fp32 gradients, one tensor for each group of parameters, of
// which the matrices' has nearly all (DeepSpeed 0.6.3 and 0.12.6, runtime/bf16_optimizer.py:
// get_grads_for_reduction; 0.14.4, non_expert_gradients). A tensor larger than a bucket is reduced
// by itself, as a whole cast into the format that travels; smaller ones are first copied into one
// (0.6.3, runtime/engine.py:2059, allreduce_bucket; :2091, allreduce_no_retain).
std::vector<program::BufferIndex> Buckets::cast_flat_gradients(Stage& stage) const {
  std::vector<program::BufferIndex> made;
  if (!stage.plan.gradient_sync.casts_flat_gradients) {
    return made;
  }
  const std::int64_t elements = stage.parameters.trained.total();
  const double wide = width(stage.plan.precision.gradients);
  const double travelling = width(stage.plan.precision.reduce);
  const auto make = [&](double bytes, const char* label) {
    made.push_back(stage.builder.allocate(whole_blocks(static_cast<double>(elements) * bytes),
                                          MemoryCategory::communication, label_of(stage, label)));
  };
  if (elements <= stage.plan.gradient_sync.bucket_elements) {
    make(wide, "flat copy of a bucket");
  }
  if (travelling != wide) {
    make(travelling, "gradients as they travel");
  }
  return made;
}

// BF16_Optimizer adds a micro-batch's gradients to the fp32 ones in copies of that format, array by
// array (update_hp_grads: lp.grad.data.to(hp_grad.dtype)); the largest stands for all.
void widen_pass_gradients(Stage& stage) {
  if (!stage.plan.state_layout.pass_gradients_stand) {
    return;
  }
  std::int64_t largest = 0;
  for (const Array& array : stage_arrays(stage)) {
    largest = std::max(largest, array.elements);
  }
  stage.builder.release(stage.builder.allocate(
      whole_blocks(static_cast<double>(largest) * width(stage.plan.precision.gradients)),
      MemoryCategory::gradients, label_of(stage, "fp32 copy of a gradient")));
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
