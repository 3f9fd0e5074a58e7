// Gradients, parameters and the optimizer step across data-parallel ranks.
#include <algorithm>

#include "stage_builder.h"

namespace stepcast::lower {

using program::Category;
using program::kNone;
using program::MemoryCategory;
using strategy::DataComm;

// ---------------------------------------------------------------- buckets
bool StageBuilder::reduces(int micro_batch) const {
  if (plan_.grid.data == 1 || fully_sharded()) {
    return false;
  }
  return plan_.data_comm == DataComm::shard_grads || micro_batch + 1 == plan_.micro_batches;
}

void StageBuilder::reduce_bucket(std::int64_t elements, program::StreamIndex stream) {
  if (elements <= 0) {
    return;
  }
  const auto bytes =
      static_cast<std::int64_t>(static_cast<double>(elements) * width(job_.memory.dtypes.reduce));
  const bool whole = plan_.data_comm == DataComm::all_reduce;
  const cost::Collective op =
      whole ? cost::Collective::all_reduce : cost::Collective::reduce_scatter;
  b_.wait(stream, b_.mark(compute_));
  b_.collective(
      stream, kData, context_.passes.book->key(kData, op, bytes), Category::data, Category::stall,
      context_.passes.labels->id(std::string("gradients ") + cost::to_string(op)), launch_);
  if (plan_.replicas > 1 && !whole) {
    b_.collective(stream, kReplicas,
                  context_.passes.book->key(kReplicas, cost::Collective::all_reduce,
                                            bytes / plan_.shard_ranks),
                  Category::data, Category::stall,
                  context_.passes.labels->id("gradients all_reduce"), launch_);
  }
}

void StageBuilder::gather_parameters_at_start() {
  const bool gathers =
      plan_.data_comm == DataComm::shard_states || plan_.data_comm == DataComm::shard_grads;
  if (!gathers || !job_.parallelism.overlap.param_gather) {
    return;
  }
  const double per_element = width(plan_.style.dtype);
  const auto bucket = strategy::bucket_elements(plan_);
  bool first = true;
  for (std::size_t c = 0; c < units_.size(); ++c) {
    const bool buckets = !job_.system.bucket_first_stage_only || (stage_ == 0 && c == 0);
    std::int64_t elements = 0;
    std::size_t covered = 0;
    for (std::size_t u = 0; u < units_[c].size(); ++u) {
      elements += units_[c][u].passes->parameters;
      if ((buckets && elements >= bucket) || u + 1 == units_[c].size()) {
        if (first) {
          b_.wait_previous_step(data_, compute_);
          first = false;
        }
        const auto bytes = static_cast<std::int64_t>(static_cast<double>(elements) * per_element);
        b_.collective(data_, kData,
                      context_.passes.book->key(kData, cost::Collective::all_gather, bytes),
                      Category::data, Category::stall,
                      context_.passes.labels->id("parameters all_gather"), launch_);
        for (; covered <= u; ++covered) {
          parameter_ready_[c][covered] = b_.mark(data_);
        }
        elements = 0;
      }
    }
  }
}

// ---------------------------------------------------------------- fully sharded units (FSDP2,
// ZeRO-3) Streams and waits follow torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py: the
// gather of the next unit starts once the copy-out of the one before has run; one reduce-scatter is
// in flight.
void StageBuilder::gather_unit(int chunk, std::size_t unit) {
  Sharded& s = sharded_[chunk][unit];
  if (s.unsharded || s.issued) {
    return;
  }
  const auto bytes = static_cast<std::int64_t>(
      static_cast<double>(units_[chunk][unit].passes->parameters) * width(plan_.style.dtype));
  if (last_copy_out_.position > 0) {
    b_.wait(gather_, last_copy_out_);
  } else {
    b_.wait_previous_step(gather_, compute_);  // parameters of the step before are updated
  }
  s.gather_buffer = b_.allocate(bytes, MemoryCategory::communication,
                                context_.passes.labels->id("gathered parameters"), gather_);
  b_.collective(gather_, kData,
                context_.passes.book->key(kData, cost::Collective::all_gather, bytes),
                Category::data, Category::stall,
                context_.passes.labels->id("parameters all_gather"), launch_);
  s.gathered = b_.mark(gather_);
  s.issued = true;
}

void StageBuilder::use_gathered(int chunk, std::size_t unit) {
  Sharded& s = sharded_[chunk][unit];
  if (s.unsharded) {
    return;
  }
  const double bytes =
      static_cast<double>(units_[chunk][unit].passes->parameters) * width(plan_.style.dtype);
  b_.wait(compute_, s.gathered);
  s.parameters = b_.allocate(static_cast<std::int64_t>(bytes), MemoryCategory::communication,
                             context_.passes.labels->id("unsharded parameters"));
  memory_kernel(2 * bytes, cost::MemoryOp::copy, Category::compute, "copy gathered parameters out");
  last_copy_out_ = b_.mark(compute_);
  b_.release(last_gather_buffer_, 1U << gather_);
  last_gather_buffer_ = s.gather_buffer;
  s.gather_buffer = kNone;
  s.issued = false;
  s.unsharded = true;
}

void StageBuilder::before_forward(int chunk, std::size_t unit, int micro_batch) {
  if (fully_sharded() && plan_.grid.data > 1) {
    gather_unit(chunk, unit);
    use_gathered(chunk, unit);
  } else if (micro_batch == 0 && parameter_ready_[chunk][unit].position > 0) {
    b_.wait(compute_, parameter_ready_[chunk][unit]);
  }
}

void StageBuilder::after_forward(int chunk, std::size_t unit) {
  // Layers are resharded after use; embedding and head belong to the root, which stays whole until
  // its backward.
  if (fully_sharded() && units_[chunk][unit].kind == Unit::Kind::layer) {
    Sharded& s = sharded_[chunk][unit];
    b_.release(s.parameters);
    s.parameters = kNone;
    s.unsharded = false;
  }
}

void StageBuilder::before_backward(int chunk, std::size_t unit) {
  if (!fully_sharded() || plan_.grid.data == 1) {
    return;
  }
  gather_unit(chunk, unit);
  use_gathered(chunk, unit);
  if (unit > 0) {
    gather_unit(chunk, unit - 1);
  }
}

void StageBuilder::after_backward(int chunk, std::size_t unit, int micro_batch) {
  const std::int64_t elements = units_[chunk][unit].passes->parameters;
  if (fully_sharded() && plan_.grid.data > 1) {
    const auto& types = job_.memory.dtypes;
    const double reduce_bytes = static_cast<double>(elements) * width(types.reduce);
    const double gradient_bytes = static_cast<double>(elements) * width(plan_.style.dtype);
    b_.wait(compute_, last_reduce_);
    b_.release(last_reduce_buffer_, 1U << data_);
    last_reduce_buffer_ =
        b_.allocate(static_cast<std::int64_t>(reduce_bytes), MemoryCategory::communication,
                    context_.passes.labels->id("gradients to reduce"));
    memory_kernel(gradient_bytes + reduce_bytes, cost::MemoryOp::copy, Category::compute,
                  "copy gradients in");
    if (micro_batch == 0 && job_.system.family == job::System::Family::fsdp2) {
      gradient_buffers_.push_back(b_.allocate(
          round_512(static_cast<double>(elements) * width(types.gradients) / plan_.shard_ranks),
          MemoryCategory::gradients, context_.passes.labels->id("sharded gradients"), data_));
    }
    reduce_bucket(elements, data_);
    last_reduce_ = b_.mark(data_);
    Sharded& s = sharded_[chunk][unit];
    b_.release(s.parameters);
    s.parameters = kNone;
    s.unsharded = false;
    return;
  }
  const auto family = job_.system.family;
  if (micro_batch == 0 &&
      (family == job::System::Family::ddp || family == job::System::Family::fsdp2)) {
    gradient_buffers_.push_back(
        b_.allocate(round_512(static_cast<double>(elements) * width(job_.memory.dtypes.gradients)),
                    MemoryCategory::gradients, context_.passes.labels->id("gradients")));
  }
  if (!reduces(micro_batch)) {
    return;
  }
  pending_elements_[chunk] += elements;
  const bool buckets = !job_.system.bucket_first_stage_only || (stage_ == 0 && chunk == 0);
  if (job_.parallelism.overlap.grad_reduce && buckets) {
    const auto bucket = strategy::bucket_elements(plan_);
    const auto first =
        static_cast<std::int64_t>(static_cast<double>(job_.system.first_bucket_bytes.count()) /
                                  width(job_.memory.dtypes.reduce));
    if (first > 0 && unit + 1 == units_[chunk].size() && pending_elements_[chunk] >= first) {
      reduce_bucket(first, data_);  // DDP starts with a small one
      pending_elements_[chunk] -= first;
    }
    while (pending_elements_[chunk] >= bucket) {
      reduce_bucket(bucket, data_);
      pending_elements_[chunk] -= bucket;
    }
  }
}

void StageBuilder::end_of_backward(int chunk, int micro_batch) {
  if (fully_sharded() || !reduces(micro_batch)) {
    return;
  }
  if (job_.parallelism.overlap.grad_reduce || plan_.data_comm == DataComm::shard_grads) {
    const auto stream = job_.parallelism.overlap.grad_reduce ? data_ : compute_;
    reduce_bucket(pending_elements_[chunk], stream);
    pending_elements_[chunk] = 0;
  }
}

// ---------------------------------------------------------------- the end of the step
void StageBuilder::finish_step() {
  b_.set_micro_batch(0xffff, 0);
  if (plan_.grid.data > 1) {
    b_.wait(compute_, b_.mark(data_));
    if (replicas_ != 0) {
      b_.wait(compute_, b_.mark(replicas_));
    }
    for (std::size_t c = 0; c < pending_elements_.size(); ++c) {
      reduce_bucket(pending_elements_[c], compute_);  // what did not overlap
      pending_elements_[c] = 0;
    }
  }
  b_.release(last_gather_buffer_, 1U << gather_);
  b_.release(last_reduce_buffer_, 1U << data_);
  const double gradient_width = width(job_.memory.dtypes.gradients);
  if (plan_.shard.sequence_parallel && parameters_.replicated > 0) {
    // Norm weights see only their shard of the sequence: summed over tensor ranks
    // (finalize_model_grads.py).
    tensor_collective(
        cost::Collective::all_reduce,
        static_cast<std::int64_t>(static_cast<double>(parameters_.replicated) * gradient_width),
        Category::other, "norm gradients");
  }
  const int last = plan_.grid.pipeline - 1;
  if (last > 0 && job_.model.tied_embeddings && (stage_ == 0 || stage_ == last)) {
    const std::int64_t table = plan_.vocab / plan_.shard.tensor * job_.model.hidden;
    const double bytes = static_cast<double>(table) * gradient_width;
    b_.collective(compute_, kEmbedding,
                  context_.passes.book->key(kEmbedding, cost::Collective::all_reduce,
                                            static_cast<std::int64_t>(bytes)),
                  Category::other, Category::bubble,
                  context_.passes.labels->id("tied embedding gradients"), launch_);
  }
  optimizer_step();
}

void StageBuilder::optimizer_step() {
  const auto& types = job_.memory.dtypes;
  const double sharded = static_cast<double>(parameters_.total) / plan_.shard_ranks;
  const double count = plan_.shard_ranks > 1 ? sharded : static_cast<double>(parameters_.total);
  const double gradient = width(types.gradients);
  b_.allocate(main_gradients_);
  if (job_.workload.precision == job::DType::fp16) {
    // Loss scaling: gradients become fp32 main gradients (where they are not yet) and are unscaled
    // and checked.
    const double cast = types.gradients == job::DType::fp32 ? 0 : gradient + 4;
    memory_kernel(count * (cast + 8), cost::MemoryOp::optimizer, Category::optimizer,
                  "unscale gradients");
  }
  memory_kernel(count * 4, cost::MemoryOp::optimizer, Category::optimizer, "gradient norm");
  if (plan_.grid.ranks() > 1) {
    b_.collective(compute_, kNorm,
                  context_.passes.book->key(kNorm, cost::Collective::all_reduce, 4),
                  Category::other, Category::bubble,
                  context_.passes.labels->id("gradient norm all_reduce"), launch_);
  }
  if (job_.system.sync_before_optimizer) {
    b_.host_sync(b_.mark(compute_));
  }
  const double moments = moment_bytes(job_.memory);
  const double master = types.master ? width(*types.master) : 0;
  const double parameter = width(types.parameters);
  const double read = (types.gradients == job::DType::fp32 ? gradient : 4) + moments +
                      (master > 0 ? master : parameter);
  const double written = moments + master + parameter;
  // Multi-tensor Adam takes up to 320 chunks of 65,536 elements a launch (apex,
  // multi_tensor_apply.cuh). One tensor at a time, AdamW is eight kernels (decay, two moments in
  // three, root, division, epsilon, update: torch's _single_tensor_adam).
  constexpr double kElementsPerLaunch = 320 * 65536.0;
  constexpr int kKernelsPerTensor = 8;
  const int launches = job_.system.fused_optimizer
                           ? std::max(1, static_cast<int>(count / kElementsPerLaunch))
                           : kKernelsPerTensor * parameters_.tensors;
  memory_kernel(count * (read + written), cost::MemoryOp::optimizer, Category::optimizer,
                "optimizer", launches);
  if (job_.system.family != job::System::Family::megatron) {
    b_.release(main_gradients_);
  }
  const bool gathers =
      plan_.data_comm == DataComm::shard_states || plan_.data_comm == DataComm::shard_grads;
  if (gathers && !job_.parallelism.overlap.param_gather) {
    for (const auto& units : units_) {
      std::int64_t elements = 0;
      for (const Unit& u : units) {
        elements += u.passes->parameters;
      }
      const auto bytes =
          static_cast<std::int64_t>(static_cast<double>(elements) * width(plan_.style.dtype));
      if (bytes > 0) {
        b_.collective(compute_, kData,
                      context_.passes.book->key(kData, cost::Collective::all_gather, bytes),
                      Category::data, Category::stall,
                      context_.passes.labels->id("parameters all_gather"), launch_);
      }
    }
  }
  const auto family = job_.system.family;
  if (family == job::System::Family::megatron || family == job::System::Family::deepspeed) {
    const bool grads_sharded = fully_sharded() || plan_.data_comm == DataComm::shard_grads;
    memory_kernel(
        static_cast<double>(parameters_.total) * gradient / (grads_sharded ? plan_.shard_ranks : 1),
        cost::MemoryOp::copy, Category::optimizer, "zero gradients");
  }
  for (std::uint32_t buffer : gradient_buffers_) {
    b_.release(buffer);
  }
}

}  // namespace stepcast::lower
