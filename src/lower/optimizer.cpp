// The end of a step: what did not overlap, gradients shared by other groups, the norm and the
// optimizer.
#include <algorithm>

#include "stage_builder.h"

namespace stepcast::lower {

using program::Category;
using program::kNone;
using strategy::DataComm;

void StageBuilder::finish_step() {
  b_.set_micro_batch(0xffff, 0);
  auto& s = data_parallel_;
  reduce_due_wraps();
  if (travels()) {
    for (const auto& later : s.later) {
      flush_gradients(later.chunk, data_);
    }
    s.later.clear();
    b_.wait(compute_, b_.mark(data_));
    if (replicas_ != 0) {
      b_.wait(compute_, b_.mark(replicas_));
    }
    if (!wraps()) {
      reduce_what_is_left();
    }
    if (copies_into_buckets()) {
      data_kernel(compute_,
                  2 * static_cast<double>(parameters_.total + parameters_.expert) *
                      width(job_.memory.dtypes.gradients),
                  cost::MemoryOp::copy, "copy gradients out of buckets");
    }
  }
  b_.release(s.last_gather_buffer);
  b_.release(s.last_reduce_buffer);  // the compute stream has waited for both
  const double gradient_width = width(job_.memory.dtypes.gradients);
  if (plan_.shard.sequence_parallel && parameters_.replicated > 0) {
    // Norm weights see only their shard of the sequence: summed over tensor ranks
    // (finalize_model_grads.py).
    tensor_collective(
        cost::Collective::all_reduce,
        static_cast<std::int64_t>(static_cast<double>(parameters_.replicated) * gradient_width),
        Category::other, "norm gradients");
  }
  share_stage_gradients();
  share_replica_gradients();
  optimizer_step();
}

// Gradients of parameters that several stages hold.
void StageBuilder::share_stage_gradients() {
  const double wide = width(job_.memory.dtypes.gradients);
  const int last = plan_.grid.pipeline - 1;
  const bool two_ends = plan_.stages.front().front().embedding && plan_.stages.back().back().head;
  if (last > 0 && job_.model.tied_embeddings && two_ends && !plan_.vocabulary_split &&
      job_.workload.finetune.kind == job::Finetune::Kind::none && (stage_ == 0 || stage_ == last)) {
    const std::int64_t table = plan_.vocab / plan_.shard.tensor * job_.model.hidden;
    const double bytes = static_cast<double>(table) * wide;
    b_.collective(compute_, kEmbedding,
                  context_.passes.book->key(kEmbedding, cost::Collective::all_reduce,
                                            static_cast<std::int64_t>(bytes)),
                  Category::other, Category::bubble,
                  context_.passes.labels->id("tied embedding gradients"), launch_);
  } else if (last > 0 && shares_table() &&
             job_.workload.finetune.kind ==
                 job::Finetune::Kind::none) {  // both ends are here: one adds into the other
    const double table = static_cast<double>(plan_.vocab / plan_.shard.tensor * job_.model.hidden);
    memory_kernel(3 * table * wide, cost::MemoryOp::elementwise, Category::other,
                  "tied embedding gradients");
  }
}

// Two replicas of the model run towards each other on the same ranks, each stage on two of them.
void StageBuilder::share_replica_gradients() {
  const bool alone = 2 * stage_ + 1 == plan_.grid.pipeline;  // both replicas' chunks are here
  if (plan_.order.placement != schedule::Placement::bidirectional || alone) {
    return;
  }
  // Sharded gradients meet as shards.
  const double elements = plan_.data_comm == DataComm::all_reduce
                              ? static_cast<double>(parameters_.total + parameters_.expert)
                              : stepped_elements();
  b_.collective(compute_, kPair,
                context_.passes.book->key(
                    kPair, cost::Collective::all_reduce,
                    static_cast<std::int64_t>(elements * width(job_.memory.dtypes.reduce))),
                Category::data, Category::bubble,
                context_.passes.labels->id("gradients of two replicas"), launch_);
}

// Trained elements whose optimizer states this rank holds.
double StageBuilder::stepped_elements() const {
  if (by_owner(job_, shares())) {
    double owned = 0;
    for (const Array& a : owned_arrays(stage_arrays(), shares())) {
      owned += static_cast<double>(a.elements);
    }
    return owned;
  }
  return static_cast<double>(parameters_.total) / plan_.shard_ranks +
         static_cast<double>(parameters_.expert) / strategy::expert_shards(plan_);
}

double StageBuilder::stepped_here() const {
  return stepped_elements() * (1 - share_away(job_.memory.offload.optimizer));
}

// Post-validated: each stage adds its part to what the stage before it sent and passes the sum on;
// the step goes on, and is validated when the whole has come back, behind the next one's first
// passes (Qi et al., 2401.10241, section 4). Nobody waits for all, as an all-reduce would: its
// kernel would hold SMs of the first stages until the last one is done.
void StageBuilder::pass_norm_on() {
  constexpr std::uint32_t kKey = 0xfffffffeU;  // of no message between passes
  const std::uint32_t label = context_.passes.labels->id("gradient norm");
  const std::uint32_t price = context_.passes.book->message(4);
  const auto reduce = [&](Role role) {
    b_.collective(norm_, role, context_.passes.book->key(role, cost::Collective::all_reduce, 4),
                  Category::other, Category::bubble, label, launch_);
  };
  b_.wait(norm_, b_.mark(compute_));
  if (plan_.grid.tensor > 1) {
    reduce(kTensor);
  }
  if (plan_.shard_ranks > 1) {
    reduce(kData);
  }
  const auto exchange = [&](std::uint32_t channel, bool send) {
    program::Task& task = b_.exchange(norm_, {{channel, kKey, price, send}}, label, launch_);
    task.category = Category::other;
  };
  if (stage_ > 0) {
    exchange(kReceiveForward, false);
  }
  if (stage_ + 1 < plan_.grid.pipeline) {
    exchange(kSendForward, true);
  }
}

// The zero-bubble runtime does; Megatron-LM's own loops wait for the norm.
bool StageBuilder::validates_later() const {
  return job_.system.optimizer_post_validation && plan_.grid.pipeline > 1 && !megatron_forms();
}

void StageBuilder::norm_of_gradients() {
  // FSDP's norm of gradients on the host is the CPU's (offload_step.cpp); DeepSpeed's is taken as
  // they leave.
  const bool there = job_.system.family == job::System::Family::fsdp2;
  const double here = there ? 1 - share_away(job_.memory.offload.gradients) : 1;
  memory_kernel(stepped_elements() * here * 4, cost::MemoryOp::optimizer, Category::optimizer,
                "gradient norm");
  const bool later = validates_later();
  if (later) {
    pass_norm_on();
  } else if (plan_.grid.ranks() > 1) {
    b_.collective(compute_, kNorm,
                  context_.passes.book->key(kNorm, cost::Collective::all_reduce, 4),
                  Category::other, Category::bubble,
                  context_.passes.labels->id("gradient norm all_reduce"), launch_);
  }
  if (job_.system.sync_before_optimizer && !later) {
    b_.host_sync(b_.mark(compute_));
  }
}

void StageBuilder::optimizer_step() {
  const auto& types = job_.memory.dtypes;
  const double count = stepped_here();
  const double gradient = width(types.gradients);
  bring_gradients_back();
  const StepCost step = step_cost(job_, shares(), stage_arrays());
  const double here = 1 - share_away(job_.memory.offload.optimizer);
  const auto within = [&](std::int64_t bytes, const char* text) {
    return b_.allocate(round_512(here * static_cast<double>(bytes)),
                       program::MemoryCategory::optimizer, context_.passes.labels->id(text));
  };
  b_.release(within(step.norm_temporary, "gradient in fp64"));
  const std::uint32_t flat = within(step.flat_gradients, "flat gradients");
  b_.allocate(main_gradients_);
  if (types.master && gradient < 4) {
    // They become fp32 main gradients (Megatron-LM: _copy_model_grads_to_main_grads).
    memory_kernel(count * (gradient + 4), cost::MemoryOp::optimizer, Category::optimizer,
                  "main gradients");
  }
  if (job_.workload.precision == job::DType::fp16) {  // loss scaling: unscaled and checked
    memory_kernel(count * 8, cost::MemoryOp::optimizer, Category::optimizer, "unscale gradients");
  }
  b_.release(flat);
  norm_of_gradients();
  const std::uint32_t temporary = within(step.temporary, "optimizer temporaries");
  orthogonalise(step);
  memory_kernel(here * step.moved, cost::MemoryOp::optimizer, Category::optimizer, "optimizer",
                step.launches);
  b_.release(temporary);
  step_on_host(step.moved / std::max(1.0, stepped_elements()));
  const auto family = job_.system.family;
  if (family != job::System::Family::megatron) {
    b_.release(main_gradients_);
  }
  gather_updated_parameters();
  if (family == job::System::Family::megatron || family == job::System::Family::deepspeed) {
    memory_kernel(static_cast<double>(held_gradients_), cost::MemoryOp::copy, Category::optimizer,
                  "zero gradients");
  }
  for (std::uint32_t buffer : data_parallel_.gradient_buffers) {
    b_.release(buffer);
  }
}

// Muon's updates: momentum matrices made orthogonal, whole where shards of them arrive first.
// Tensor ranks each take their own part (Megatron-LM's --muon-tp-mode blockwise).
void StageBuilder::orthogonalise(const StepCost& step) {
  if (step.gathered > 0) {
    data_collective(compute_, kData, cost::Collective::all_gather, step.gathered,
                    "matrices of updates");
  }
  const bool megatron = job_.system.family == job::System::Family::megatron;
  const job::DType wide = job::DType::tf32;  // fp32 operands at --muon-fp32-matmul-prec medium
  const bool rounds = megatron && job::peak_of(*context_.device, wide).count() > 0;
  const job::DType type = rounds ? wide : plan_.style.dtype;
  for (const Orthogonal& o : step.orthogonal) {
    const auto price = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
      return context_.passes.kernels->gemm({.shape = {m, n, k}, .dtype = type});
    };
    const cost::Priced last = price(o.m, o.n, o.m);
    const std::int64_t once =
        price(o.m, o.m, o.n).time.count() + price(o.m, o.m, o.m).time.count() + last.time.count();
    constexpr int kAround = 6;  // momentum, norm, division, scale, decay, update
    b_.kernel(compute_, kNewtonSchulzSteps * o.count * once, last.curve, Category::optimizer,
              context_.passes.labels->id("orthogonal updates"),
              launch_ * o.count * (3 * kNewtonSchulzSteps + kAround), kArithmeticBound);
  }
}

// Where the next forward pass does not gather them itself.
void StageBuilder::gather_updated_parameters() {
  if (!travels()) {
    return;
  }
  if (wraps()) {
    Elements persistent;  // DeepSpeed's small parameters (stage3.py: _post_step)
    for (const Wrap& w : data_parallel_.wraps) {
      persistent.dense += w.persistent;
    }
    gather_parameters(persistent, compute_);
    return;
  }
  if (!shards_states() || gather_beside()) {
    return;
  }
  if (data_parallel_.pieces.empty()) {
    make_pieces();
  }
  for (const ParameterPiece& piece : data_parallel_.pieces) {
    gather_parameters(piece.elements, compute_);
  }
}

}  // namespace stepcast::lower
