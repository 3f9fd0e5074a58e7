#include "passing_buckets.h"

#include <algorithm>

#include "../state/states.h"
#include "../tensors/unit_tensors.h"
#include "buckets.h"
#include "data_parallel.h"

namespace stepcast::lower {

using program::MemoryCategory;

bool passing(const Stage& stage) {
  return travels(stage) && !wraps(stage) && fills_passing_buckets(stage.plan);
}

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
                     stage.plan.data_comm == strategy::DataComm::shard_grads);
  return flat ? bucket * (reduce_beside(stage.plan) ? 2 : 1) : 0;
}

namespace {

// ZeRO-2 copies a gradient into the bucket as soon as it is there.
bool leaves_at_once(const Stage& stage, int chunk) {
  return reduces(stage, chunk) && sends_as_it_goes(stage.plan);
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

}  // namespace

void PassingBuckets::begin(const Stage& stage) {
  made_.clear();
  for (const auto& units : stage.units) {
    made_.push_back(
        std::vector<program::BufferIndex>(units.size(), program::BufferIndex{program::kNone}));
  }
}

// Behind an operator its gradient's hook copies it into the bucket and gives it up. What would
// overfill the bucket has it reduced first, in a copy (DeepSpeed 0.19.8,
// runtime/zero/stage_1_and_2.py:1422; :2358, allreduce_bucket: flatten); a gradient larger than a
// bucket goes by itself when the next one comes (:1446).
const PassingBuckets::Leaving& PassingBuckets::leaving(Stage& stage, const Passes& passes,
                                                       bool ends) {
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
void PassingBuckets::open_bucket_of_pass(Stage& stage, int chunk, const Passes& passes) {
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

// `from`: the place of the pass at which it is made.
void PassingBuckets::open_flat_bucket(Stage& stage, std::uint16_t from) {
  if (bucket_ != program::kNone) {
    return;
  }
  if (bucket_list_.blocks.empty()) {
    const std::int64_t bytes =
        whole_blocks(bucket_buffers(stage) * width(stage.plan.precision.reduce));
    bucket_list_ = {{{Bytes(bytes), label_of(stage, "gradient buckets"), from, kPassEnd}}, bytes};
  }
  bucket_ = stage.builder.allocate(bucket_list_, MemoryCategory::communication,
                                   label_of(stage, "gradient buckets"), false);
}

// Gradients of passing buckets are made by their operators, and the bucket behind the first of them
// (DeepSpeed 0.19.8, runtime/zero/stage_1_and_2.py:2285, process_gradients), or ahead of the pass
// (up to 0.18.2; 0.15.4:2041, backward). A gradient that leaves at once is copied into the bucket
// by the hook behind its operator, and given up; one that is larger than a bucket is reduced when
// the next one comes (:1425).
void PassingBuckets::before_weight_gradients(Stage& stage, int chunk, std::size_t unit) {
  const Passes& passes = *stage.units[chunk][unit].passes;
  open_bucket_of_pass(stage, chunk, passes);
  const TensorList& made = passes.memory.gradients;
  if (!passing(stage) || made_[chunk][unit] != program::kNone) {
    return;
  }
  const bool ahead = stage.plan.gradient_sync.bucket_before_backward;
  if (!made.blocks.empty() || ahead) {
    open_flat_bucket(stage, ahead ? std::uint16_t{0} : hook(made.blocks.front()));
  }
  if (made.blocks.empty()) {
    return;
  }
  const TensorList* list = &made;
  if (leaves_at_once(stage, chunk)) {
    const Leaving& leaves = leaving(stage, passes, unit == 0);
    list = &leaves.list;
    last_ = stage.builder.allocate(leaves.last, MemoryCategory::gradients,
                                   label_of(stage, "gradients"), false);
  }
  made_[chunk][unit] =
      stage.builder.allocate(*list, MemoryCategory::gradients, label_of(stage, "gradients"), false);
}

void PassingBuckets::hold(Stage& stage, int chunk, std::size_t unit, const TensorList& made) {
  if (bucket_ == program::kNone) {
    bucket_ = stage.builder.allocate(
        whole_blocks(bucket_buffers(stage) * width(stage.plan.precision.reduce)),
        MemoryCategory::communication, label_of(stage, "gradient buckets"));
  }
  if (made_[chunk][unit] == program::kNone) {
    made_[chunk][unit] = stage.builder.allocate(made, MemoryCategory::gradients,
                                                label_of(stage, "gradients"), false);
  }
}

void PassingBuckets::backward_passed(Stage& stage, int chunk, std::size_t unit) {
  if (passing(stage) && leaves_at_once(stage, chunk)) {
    stage.builder.release(made_[chunk][unit]);
    made_[chunk][unit] = program::kNone;
  }
}

void PassingBuckets::hand_over(Stage& stage, int chunk, std::size_t unit) {
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
  // pass are added to it (:2192, copy_grads_in_partition); on the host, where the states are.
  program::BufferIndex added = program::kNone;
  const bool stays_here = stage.plan.offload.gradients.share() == 0;
  if (stage.plan.shard_ranks > 1 && unit == 0 && stays_here) {
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

void PassingBuckets::give_up(Stage& stage) {
  in_bucket_ = 0;
  stage.builder.release(bucket_, reduce_beside(stage.plan) ? 1U << stage.streams.data : 0);
  bucket_ = program::kNone;
}

}  // namespace stepcast::lower
