// What stands in memory from step to step: states, buckets, workspaces, and what lies outside the
// allocator.
#include <algorithm>

#include "stage_builder.h"
#include "stepcast/lower/lower.h"

namespace stepcast::lower {

using program::kNone;
using program::MemoryCategory;
using strategy::DataComm;

// Bytes of optimizer moments per parameter.
double moment_bytes(const job::Memory& memory) {
  const double width = job::bytes_per_element(memory.dtypes.moments);
  switch (memory.optimizer) {
    case job::Optimizer::adamw:
      return 2 * width;
    case job::Optimizer::adamw_bf16:
      return 4;
    case job::Optimizer::adamw_8bit:
      return 2 + 2 * 4.0 / 256;  // block scales of 256 (bitsandbytes, torchao)
    case job::Optimizer::sgd:
      return memory.momentum > 0 ? width : 0;
    case job::Optimizer::lion:
    case job::Optimizer::muon:
      return width;
    case job::Optimizer::adafactor:
      return 0;
  }
  return 0;
}

StateBytes state_bytes(const job::Job& job, DataComm comm, int shard_ranks,
                       std::int64_t parameters) {
  const auto& types = job.memory.dtypes;
  const auto family = job.system.family;
  // FSDP's SHARD_GRAD_OP gathers parameters once a step from shards.
  const bool all = comm == DataComm::shard_all ||
                   (comm == DataComm::shard_grads && family == job::System::Family::fsdp2 &&
                    !job.system.reduce_to_owner);
  const auto bytes = [&](double width, bool sharded) {
    return round_512(static_cast<double>(parameters) * width / (sharded ? shard_ranks : 1));
  };
  StateBytes out;
  out.parameters = bytes(job::bytes_per_element(types.parameters), all);
  const bool stand =
      family == job::System::Family::megatron || family == job::System::Family::deepspeed;
  if (stand && !(all && job.system.gradients_in_parameters)) {
    out.gradients =
        bytes(job::bytes_per_element(types.gradients), all || comm == DataComm::shard_grads);
  }
  out.optimizer = bytes(
      moment_bytes(job.memory) + (types.master ? job::bytes_per_element(*types.master) : 0), true);
  return out;
}

// Elements of the buffers where gradients are copied to be sent: DDP's buckets, Horovod's fusion
// buffer, DeepSpeed's flat buckets, two of them when reduction overlaps
// (runtime/zero/stage_1_and_2.py).
double StageBuilder::bucket_buffers() const {
  const auto count = static_cast<double>(parameters_.total + parameters_.expert);
  const double bucket = std::min(count, static_cast<double>(strategy::bucket_elements(plan_)));
  const auto family = job_.system.family;
  if (!travels()) {
    return 0;
  }
  if (wraps()) {
    return job_.system.zero3_buckets ? bucket : 0;
  }
  if (job_.system.cycle_time.count() > 0) {
    return bucket;
  }
  if (family == job::System::Family::ddp) {
    return count;
  }
  // Megatron-LLaMA's buckets stand apart as well: its gradients are kept in shards.
  const bool flat =
      (family == job::System::Family::deepspeed && plan_.shard_ranks > 1) ||
      (family == job::System::Family::megatron && plan_.data_comm == DataComm::shard_grads);
  return flat ? bucket * (reduce_beside() ? 2 : 1) : 0;
}

// Of this stage: dense parameters and experts by the ranks that share them, frozen ones, and second
// copies.
StateBytes StageBuilder::held_states() const {
  StateBytes out = state_bytes(job_, plan_.data_comm, plan_.shard_ranks, parameters_.total);
  const StateBytes experts =
      state_bytes(job_, plan_.data_comm, strategy::expert_shards(plan_), parameters_.expert);
  out.parameters += experts.parameters;
  out.gradients += experts.gradients;
  out.optimizer += experts.optimizer;
  out.parameters +=
      round_512(static_cast<double>(parameters_.frozen_bytes) / (wraps() ? plan_.shard_ranks : 1));
  for (const Wrap& w : data_parallel_.wraps) {
    // DeepSpeed's small parameters are whole on every rank beside their shard.
    out.parameters +=
        round_512(static_cast<double>(w.persistent) * width(job_.memory.dtypes.parameters) *
                  (plan_.shard_ranks - 1) / plan_.shard_ranks);
    if (job_.parallelism.zeropp.partition > 0) {
      out.parameters += round_512(whole_bytes(w) / partition_ranks());
    }
  }
  return out;
}

void StageBuilder::make_persistent_buffers() {
  auto label = [&](const char* text) { return context_.passes.labels->id(text); };
  StateBytes states = held_states();
  const StateBytes away = states_away();
  states.parameters -= away.parameters;
  states.gradients -= away.gradients;
  states.optimizer -= away.optimizer;
  b_.persistent(states.parameters, MemoryCategory::parameters, label("parameters"));
  b_.persistent(states.gradients, MemoryCategory::gradients, label("gradients"));
  b_.persistent(states.optimizer, MemoryCategory::optimizer, label("optimizer states"));
  make_host_states();
  const auto family = job_.system.family;
  const auto& types = job_.memory.dtypes;
  if (types.master && job::bytes_per_element(types.gradients) < 4) {
    // Megatron's stand until the next step sets them to none (20 bytes a parameter in fp16, 4 +
    // 16/d sharded: dist_optimizer.md); DeepSpeed's for the optimizer step only.
    main_gradients_ = b_.declare(round_512(stepped_here() * 4), MemoryCategory::gradients,
                                 label("fp32 gradients"));
    if (family == job::System::Family::megatron) {
      b_.release(main_gradients_);
    }
  }
  // A Megatron chunk holds on to the last tensor it received (TransformerBlock.set_input_tensor)
  // and, through it, to that tensor's gradient (backward_step retains it), until it receives the
  // next.
  kept_inputs_.assign(units_.size(), kNone);
  for (std::size_t c = 0; c < units_.size(); ++c) {
    const bool receives = c < plan_.stages[stage_].size() && plan_.stages[stage_][c].stage > 0;
    if (family == job::System::Family::megatron && plan_.grid.pipeline > 1 && receives) {
      const std::int64_t tensor_ranks =
          job_.system.scatter_gather_p2p && !plan_.shard.sequence_parallel ? plan_.shard.tensor : 1;
      const double bytes = static_cast<double>(message_bytes(plan_) * tensor_ranks);
      kept_inputs_[c] = b_.declare(2 * round_512(bytes), MemoryCategory::activations,
                                   label("last input and its gradient"));
    }
  }
  b_.persistent(round_512(bucket_buffers() * width(types.reduce)), MemoryCategory::communication,
                label("gradient buckets"));
  // cuBLAS: 8.125 MiB a handle and stream before Hopper, 32 MiB since. PyTorch keeps handles per
  // thread, and the backward pass runs on autograd's: two of them (CublasHandlePool.cpp).
  // Transformer Engine's own: 4 and 32 MiB.
  constexpr std::int64_t kHandles = 2;
  const bool hopper = context_.device->compute_capability >= 9;
  std::int64_t workspace = job_.system.gemm_workspace.count();
  if (workspace == 0) {
    workspace = hopper ? 32 << 20 : 8519680;
  }
  workspace *= kHandles;
  if (job_.system.transformer_engine) {
    workspace += hopper ? 32 << 20 : 4 << 20;
  }
  b_.persistent(workspace, MemoryCategory::workspace, label("GEMM workspace"));
}

// Context and kernels by architecture, and NCCL's buffers for each process group a rank uses
// (MEMORY: 0.3 GiB a group inside the node, 0.15 GiB a group between nodes; channel buffers of 9.2
// MiB a peer explain the order of magnitude).
Bytes StageBuilder::outside_allocator() const {
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  double bytes = static_cast<double>(job_.system.context_memory.count());
  if (bytes == 0) {
    const double cc = context_.device->compute_capability;
    bytes = (cc >= 10 ? 0.7 : cc >= 9 ? 0.6 : 0.5) * kGiB;
  }
  const int per_node = job_.cluster.node.gpus;
  const auto& grid = plan_.grid;
  bytes += grid.tensor > 1 ? 0.3 * kGiB : 0;
  bytes += plan_.data_ranks() > 1
               ? (grid.tensor * plan_.data_ranks() <= per_node ? 0.3 : 0.15) * kGiB
               : 0;
  bytes += grid.pipeline > 1 ? (grid.ranks() <= per_node ? 0.3 : 0.15) * kGiB : 0;
  return Bytes(static_cast<std::int64_t>(bytes));
}

}  // namespace stepcast::lower
