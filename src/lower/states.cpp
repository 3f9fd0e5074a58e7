// What stands in memory from step to step: states tensor by tensor, buckets, workspaces.
#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "optimizer_states.h"
#include "stage_builder.h"
#include "stepcast/lower/lower.h"

namespace stepcast::lower {

using program::kNone;
using program::MemoryCategory;
using strategy::DataComm;

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

namespace {

// Gradients in the products' 16 bits, as DeepSpeed's ZeRO keeps them; wider ones are its
// BF16_Optimizer's (runtime/bf16_optimizer.py).
bool half_width_gradients(const job::Job& job) {
  return job::bytes_per_element(job.memory.dtypes.gradients) <=
         job::bytes_per_element(job.memory.dtypes.parameters);
}

}  // namespace

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
  if (family == job::System::Family::deepspeed && !half_width_gradients(job_)) {
    // BF16_Optimizer's buckets end behind the parameter that fills them
    // (buffered_allreduce_fallback: split_half_float_double, flatten); its largest may be wider
    // than a bucket.
    double largest = 0;
    for (const Array& a : stage_arrays()) {
      largest = std::max(largest, static_cast<double>(a.elements));
    }
    return std::max(bucket, largest);
  }
  return flat ? bucket * (reduce_beside() ? 2 : 1) : 0;
}

Shares StageBuilder::shares() const {
  return {plan_.data_comm, plan_.shard_ranks, strategy::expert_shards(plan_)};
}

// Of this stage, in forward order; what no array accounts for stands as one.
std::vector<Array> StageBuilder::stage_arrays() const {
  std::vector<Array> out;
  std::int64_t dense = parameters_.total;
  std::int64_t expert = parameters_.expert;
  for (const auto& chunk : units_) {
    for (const Unit& u : chunk) {
      for (const Array& a : u.passes->arrays) {
        std::int64_t& left = a.expert ? expert : dense;
        if (a.elements <= left) {
          out.push_back(a);
          left -= a.elements;
        }
      }
    }
  }
  for (const bool of_experts : {false, true}) {
    Array rest;
    rest.elements = of_experts ? expert : dense;
    rest.expert = of_experts;
    if (rest.elements > 0) {
      out.push_back(rest);
    }
  }
  return out;
}

std::uint32_t StageBuilder::hold(const std::vector<std::int64_t>& tensors, MemoryCategory category,
                                 const char* text) {
  const std::uint32_t label = context_.passes.labels->id(text);
  std::int64_t bytes = 0;
  for (const std::int64_t tensor : tensors) {
    bytes += round_512(static_cast<double>(tensor));
  }
  const std::uint32_t id = b_.persistent(bytes, category, label);
  if (id != kNone && tensors.size() > 1) {
    program::Buffer& buffer = b_.program.buffers[id];
    buffer.first_block = static_cast<std::uint32_t>(b_.program.blocks.size());
    for (const std::int64_t tensor : tensors) {
      if (tensor > 0) {
        b_.program.blocks.push_back({tensor, label});
      }
    }
    buffer.blocks = static_cast<std::uint32_t>(b_.program.blocks.size()) - buffer.first_block;
  }
  return id;
}

// Of this stage, wherever it stands: dense parameters and experts, and frozen ones.
StateBytes StageBuilder::held_states() const {
  const StateTensors states = state_tensors(job_, shares(), stage_arrays());
  const auto sum = [](const std::vector<std::int64_t>& tensors) {
    return std::accumulate(tensors.begin(), tensors.end(), std::int64_t{0});
  };
  StateBytes out;
  out.parameters =
      sum(states.parameters) + parameters_.frozen_bytes / (wraps() ? plan_.shard_ranks : 1);
  out.gradients = sum(states.gradients);
  out.optimizer = sum(states.master) + sum(states.moments);
  return out;
}

// What stands beside the arrays' own tensors: frozen parameters, second copies.
void StageBuilder::hold_more_parameters() {
  std::vector<std::int64_t> frozen;
  std::vector<std::int64_t> whole;
  std::vector<std::int64_t> partitions;
  const double frozen_here =
      states_away().parameters > 0 ? 1 - share_away(job_.memory.offload.parameters) : 1;
  frozen.push_back(static_cast<std::int64_t>(
      frozen_here *
      static_cast<double>(parameters_.frozen_bytes / (wraps() ? plan_.shard_ranks : 1))));
  for (const Wrap& w : data_parallel_.wraps) {
    // DeepSpeed's small parameters are whole on every rank beside their shard.
    whole.push_back(static_cast<std::int64_t>(static_cast<double>(w.persistent) *
                                              width(job_.memory.dtypes.parameters) *
                                              (plan_.shard_ranks - 1) / plan_.shard_ranks));
    if (job_.parallelism.zeropp.partition > 0) {
      partitions.push_back(static_cast<std::int64_t>(whole_bytes(w) / partition_ranks()));
    }
  }
  hold(frozen, MemoryCategory::parameters, "frozen parameters");
  hold(whole, MemoryCategory::parameters, "small parameters, whole");
  hold(partitions, MemoryCategory::parameters, "parameters of the second partition");
}

// Transformer Engine casts a weight once a step, with the first micro-batch, and keeps the copy
// (module/base.py: get_weight_workspace): rows, and columns where the input gradient's product
// cannot read rows: before Blackwell 8-bit products take operands that lie along the sum alone, and
// scales of blocks differ by direction. Parameters that are 8-bit themselves (--fp8-param-gather)
// are the first copy.
void StageBuilder::hold_cast_weights(const std::vector<Array>& arrays) {
  if (!job_.system.transformer_engine) {
    return;
  }
  const double capability = context_.device->compute_capability;
  double rows = 0;
  double columns = 0;
  switch (job_.workload.precision) {
    case job::DType::fp8:
      rows = 1;
      columns = capability >= 10 ? 0 : 1;
      break;
    case job::DType::fp8_block:
      rows = columns = 1 + 4.0 / (128 * 128);  // a scale a square
      break;
    case job::DType::mxfp8:
      rows = columns = 1 + 1.0 / 32;
      break;
    case job::DType::nvfp4:
      rows = columns = 0.5 + 1.0 / 16;
      break;
    default:
      return;
  }
  const bool parameters_are = width(job_.memory.dtypes.parameters) < 2;
  const double each = (parameters_are ? 0 : rows) + columns;
  std::vector<std::int64_t> copies;
  for (const Array& a : arrays) {
    if (a.cast) {
      copies.push_back(static_cast<std::int64_t>(static_cast<double>(a.elements) * each));
    }
  }
  hold(copies, MemoryCategory::parameters, "weights in the products' format");
}

bool StageBuilder::has_experts() const {
  for (const auto& chunk : plan_.stages[stage_]) {
    for (int n = 0; n < chunk.layers; ++n) {
      if (model::layer_kind(job_.model, chunk.first_layer + n).mlp == model::LayerKind::Mlp::moe) {
        return true;
      }
    }
  }
  return false;
}

// Megatron-LM's own unfused attention hands its product of scores a tensor to add to, which stays
// in the global memory buffer, as large as the largest so far
// (core/transformer/dot_product_attention.py, core/utils.py: GlobalMemoryBuffer; since 2022).
// Transformer Engine's makes its own.
std::int64_t StageBuilder::scores_buffer() const {
  const auto& system = job_.system;
  if (system.family != job::System::Family::megatron || system.transformer_engine ||
      system.scatter_gather_p2p || plan_.style.attention != job::AttentionKernel::unfused) {
    return 0;
  }
  std::int64_t most = 0;
  for (const auto& [kind, graph] : *context_.layers) {
    for (const model::Operator& op : graph.operators) {
      if (op.kind == model::OpKind::batched_gemm && op.name == "scores") {
        most = std::max(most, op.forward_output.count());
      }
    }
  }
  return most;
}

// Where products add weight gradients to the main ones, autograd is handed an empty tensor in
// their place: Transformer Engine keeps one for each shape of weight, for good
// (pytorch/module/base.py, get_dummy_wgrad).
std::int64_t StageBuilder::dummy_gradients() const {
  std::set<std::pair<std::int64_t, std::int64_t>> shapes;
  for (const auto& units : units_) {
    for (const Unit& unit : units) {
      for (const model::Gemm& g : unit.passes->summed) {
        shapes.insert({g.n, g.k});
      }
    }
  }
  std::int64_t bytes = 0;
  for (const auto& [n, k] : shapes) {
    bytes += round_512(static_cast<double>(n * k) * width(plan_.style.dtype));
  }
  return bytes;
}

void StageBuilder::make_persistent_buffers() {
  auto label = [&](const char* text) { return context_.passes.labels->id(text); };
  const std::vector<Array> arrays = stage_arrays();
  const StateTensors states = state_tensors(job_, shares(), arrays);
  const job::Offload& offload = job_.memory.offload;
  // What is left here of tensors of which a share is elsewhere.
  const auto rest = [](std::vector<std::int64_t> tensors, double away) {
    for (std::int64_t& bytes : tensors) {
      bytes -= static_cast<std::int64_t>(static_cast<double>(bytes) * away);
    }
    return tensors;
  };
  if (job_.system.family == job::System::Family::deepspeed && plan_.grid.pipeline > 1 &&
      !half_width_gradients(job_)) {
    // Beside a pipeline BF16_Optimizer adds the gradients of a micro-batch once its backward pass
    // is over (update_hp_grads): until then all of them stand in 16 bits.
    hold(states.parameters, MemoryCategory::gradients, "gradients of a micro-batch");
  }
  const double optimizer_away = share_away(offload.optimizer);
  if (stored().empty()) {
    hold(rest(states.parameters, states_away().parameters > 0 ? share_away(offload.parameters) : 0),
         MemoryCategory::parameters, "parameters");
  } else {
    std::vector<std::int64_t> shards;
    for (const Chunk& c : stored()) {
      if (!c.away) {
        shards.push_back(static_cast<std::int64_t>(shard_bytes(c)));
      }
    }
    hold(shards, MemoryCategory::parameters, "parameters");
  }
  hold_more_parameters();
  hold_cast_weights(arrays);
  const std::uint32_t gradients =
      hold(rest(states.gradients, states_away().gradients > 0 ? share_away(offload.gradients) : 0),
           MemoryCategory::gradients, "gradients");
  held_gradients_ = gradients == kNone ? 0 : b_.program.buffers[gradients].bytes.count();
  hold(rest(states.master, optimizer_away), MemoryCategory::optimizer, "master weights");
  const std::uint32_t moments =
      hold(rest(states.moments, optimizer_away), MemoryCategory::optimizer, "optimizer states");
  // PyTorch's optimizers, apex's and Transformer Engine's make them in their first step; DeepSpeed
  // takes a step of zeros before training (initialize_optimizer_states).
  if (moments != kNone) {
    b_.program.buffers[moments].lazy = job_.system.family != job::System::Family::deepspeed;
  }
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
  constexpr std::int64_t kHandles = 2;
  const bool hopper = context_.device->compute_capability >= 9;
  std::int64_t workspace = job_.system.gemm_workspace.count();
  if (workspace == 0) {
    workspace = hopper ? 32 << 20 : 8519680;
  }
  workspace *= kHandles;
  // Transformer Engine's own: one, with user buffers one for each of their streams (initialize_ub:
  // _NUM_MAX_UB_STREAMS), and of grouped products one for each of theirs
  // (get_multi_stream_cublas_workspace).
  if (job_.system.transformer_engine) {
    constexpr std::int64_t kBufferStreams = 3;
    constexpr std::int64_t kGroupedStreams = 4;
    const auto overlap = job_.parallelism.overlap.tensor;
    const bool buffers = overlap == job::TensorOverlap::bulk || overlap == job::TensorOverlap::ring;
    const std::int64_t count =
        (buffers ? kBufferStreams : 1) + (job_.moe.grouped && has_experts() ? kGroupedStreams : 0);
    workspace += (hopper ? 32 << 20 : 4 << 20) * count;
  }
  b_.persistent(workspace, MemoryCategory::workspace, label("GEMM workspace"));
  b_.persistent(scores_buffer(), MemoryCategory::workspace, label("scores buffer"));
  b_.persistent(dummy_gradients(), MemoryCategory::workspace, label("empty weight gradients"));
}

}  // namespace stepcast::lower
