// How a job's keys and its system's habits become policies.
#include <algorithm>

#include "rules.h"
#include "stepcast/job/facts.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::strategy {
namespace {

bool shards_units(DataComm comm, bool zero2_by_units) {
  return comm == DataComm::shard_all || (comm == DataComm::shard_grads && zero2_by_units);
}

// Transformer Engine (2.14.1, pytorch/module/base.py:1435, get_weight_workspace): an 8-bit weight
// is its own copy, whose columns are made with its first use and stay with it, whatever
// is_first_microbatch says; copies of 16-bit weights are kept where that is not None
// (megatron-core 0.16.1, extensions/transformer_engine.py:672,
// disable_parameter_transpose_cache). Megatron-FSDP discards the columns with the unit
// (0.16.1, megatron_fsdp.py:538; keep_fp8_transpose_cache is False).
WeightCopies weight_copies_of(const job::Job& job, DataComm comm) {
  if (!job.system.transformer_engine) {
    return WeightCopies::plain;
  }
  if (comm == DataComm::shard_all && bytes_per_element(job.memory.dtypes.parameters) < 2) {
    return WeightCopies::with_units;
  }
  return job.memory.kept_weight_copies ? WeightCopies::kept : WeightCopies::each_pass;
}

// Megatron-Core's precision-aware optimizer, without which moments are fp32, reads gradients as
// they are (0.19.2, optimizer/distrib_optimizer.py:2774, decoupled_grad), but not under 8-bit
// products with other than delayed scaling (optimizer/optimizer_config.py:404), of which nothing
// says whether they have it.
bool reads_narrow_gradients(const job::Job& job) {
  const auto& system = job.system;
  const auto& types = job.memory.dtypes;
  const bool narrow_master = types.master && *types.master != DType::fp32;
  const bool implied = system.transformer_engine && (narrow_master || types.moments != DType::fp32);
  const bool reads = bytes_per_element(job.workload.precision) >= 2 || narrow_master ||
                     job.memory.offload.optimizer.to != job::OffloadTarget::none;
  return system.precision_aware_optimizer.value_or(implied) && reads &&
         job.memory.optimizer == Optimizer::adamw;
}

// Of fp32 weights a precision-aware optimizer keeps the 16 bits that bf16 parameters lack, on the
// GPU (megatron-core 0.14 and later, optimizer/optimizer_config.py: store_param_remainders). Under
// Megatron-FSDP the optimizer steps the fp32 weights themselves (0.19.2, distrib_optimizer.py:704).
bool stores_remainders(const job::Job& job) {
  const auto& types = job.memory.dtypes;
  return job.system.transformer_engine && !job.system.unit_buffers && reads_narrow_gradients(job) &&
         types.master == DType::fp32 && types.parameters == DType::bf16 &&
         job.memory.offload.optimizer.to == job::OffloadTarget::none;
}

Precision precision_of(const job::Job& job, DataComm comm) {
  const auto& types = job.memory.dtypes;
  Precision out;
  out.products = job.workload.precision;
  out.frozen = types.parameters;
  out.parameters = job::trained_format(job);
  out.gradients = types.gradients;
  out.reduce = types.reduce;
  out.moments = types.moments;
  out.master = stores_remainders(job) ? DType::bf16 : types.master;
  out.loss_scaling = job.workload.precision == DType::fp16;
  // Conversions by plain kernels go with parameters that are sharded one by one.
  out.casts_operands_twice = job.system.habits.casts_operands_twice &&
                             !job.system.flat_parameters && !job.system.transformer_engine;
  out.compiled_casts = job.system.compiled_casts;
  out.weight_copies = weight_copies_of(job, comm);
  out.compute_capability = job.cluster.device.compute_capability;
  return out;
}

// Gradients in the products' 16 bits, as DeepSpeed's ZeRO keeps them; wider ones are its
// BF16_Optimizer's (runtime/bf16_optimizer.py).
bool wide_gradients(const job::Job& job) {
  return bytes_per_element(job.memory.dtypes.gradients) >
         bytes_per_element(job.memory.dtypes.parameters);
}

GradientAccumulation accumulation_of(const job::Job& job) {
  const auto& system = job.system;
  GradientAccumulation out;
  // Megatron-LM's own kernel of 2022 adds to fp32 gradients alone (wgrad_gemm_accum_fp32);
  // Transformer Engine's products add to any.
  out.in_product = system.gradient_accumulation_fusion &&
                   (job.memory.dtypes.gradients == DType::fp32 || system.transformer_engine);
  out.empty_gradients_stand = system.transformer_engine && system.gradient_accumulation_fusion;
  out.hands_on_gradients = system.habits.hands_on_weight_gradients;
  // DeepSpeed's BF16_Optimizer, update_hp_grads: hp_grad.data.add_(lp.grad.data.to(hp_grad.dtype))
  // (0.6.3 to 0.19.0, runtime/bf16_optimizer.py: 0.6.7:400, 0.19.0:353).
  out.casts_first = system.habits.adds_wide_after_pass && wide_gradients(job);
  out.deferred_heads = job.parallelism.deferred_head_wgrad;
  return out;
}

// Megatron-FSDP's optim_grads overlaps unasked, but has several buckets only where that is asked
// for (megatron-core 0.19.2, training/models/dist_utils.py:294).
bool has_bucket_of_pass(const job::Job& job, DataComm comm) {
  return job.system.unit_buffers && comm == DataComm::shard_grads &&
         !job.parallelism.overlap.grad_reduce;
}

// More than any model has.
constexpr std::int64_t kOneBucket = 1'000'000'000'000'000;

// Elements of a bucket under the system's rule; Megatron: max(40e6, 1e6 * data)
// (param_and_grad_buffer.py).
std::int64_t elements_of_bucket(const job::Job& job, const Plan& plan) {
  const auto& system = job.system;
  const bool sharded =
      plan.data_comm == DataComm::shard_states || plan.data_comm == DataComm::shard_grads;
  if (has_bucket_of_pass(job, plan.data_comm)) {
    return kOneBucket;
  }
  if (sharded && system.sharded_bucket_elements > 0) {
    return system.sharded_bucket_elements;
  }
  if (system.bucket_bytes.count() > 0) {
    const double width = bytes_per_element(job.memory.dtypes.reduce);
    return static_cast<std::int64_t>(static_cast<double>(system.bucket_bytes.count()) / width);
  }
  if (system.bucket_elements > 0) {
    return system.bucket_elements;
  }
  return std::max<std::int64_t>(40'000'000, std::int64_t{1'000'000} * plan.data_ranks());
}

// Where a step needs whole matrices and ranks share the states, each rank steps its own
// (Megatron-LM's LayerWiseDistributedOptimizer, its dist_muon).
bool steps_by_owner(const job::Job& job, DataComm comm) {
  return job.system.habits.owns_whole_matrices && job.memory.optimizer == Optimizer::muon &&
         comm == DataComm::shard_states;
}

GradientSync::Operation operation_of(const job::Job& job, DataComm comm) {
  const auto& system = job.system;
  const bool whole = comm == DataComm::all_reduce || comm == DataComm::none ||
                     (comm == DataComm::shard_states && system.zero1_all_reduces) ||
                     (comm == DataComm::shard_grads && system.zero2_all_reduces) ||
                     steps_by_owner(job, comm);
  return whole                    ? GradientSync::Operation::all_reduce
         : system.reduce_to_owner ? GradientSync::Operation::reduce
                                  : GradientSync::Operation::reduce_scatter;
}

// ZeRO-2 and DeepSpeed's ZeRO-3 have nowhere to keep whole gradients (engine.py refuses no_sync).
// FSDP's units reduce after each backward pass unless no_sync is asked for; with pipeline stages
// once (torch.distributed.pipelining keeps requires_gradient_sync off until the last).
bool reduces_each_pass(const job::Job& job, DataComm comm, int pipeline) {
  const bool each = job.parallelism.reduce_each;
  if (!shards_units(comm, zero2_by_units(job.system))) {
    return each || comm == DataComm::shard_grads;
  }
  const bool keeps = job.system.habits.keeps_whole_gradients;
  return pipeline == 1 ? each || !keeps : each && !keeps;
}

GradientSync gradient_sync_of(const job::Job& job, const Plan& plan) {
  const auto& system = job.system;
  const auto& habits = system.habits;
  const auto& par = job.parallelism;
  const bool units = plan.parameter_gather.by_units;
  GradientSync out;
  const bool beside_stages = plan.grid.pipeline == 1 || system.overlap_with_pipeline;
  out.overlap_stated = par.overlap.grad_reduce &&
                       (plan.data_comm != DataComm::shard_states || system.zero1_overlaps);
  out.overlaps = beside_stages && (out.overlap_stated || (units && system.zero3_overlaps));
  out.each_pass = reduces_each_pass(job, plan.data_comm, plan.grid.pipeline);
  out.accumulates_whole = accumulates_whole(job, plan.data_comm, plan.grid.pipeline);
  out.after_each_stated = par.reduce_each;
  // Without overlap all is reduced when the step's backward passes are done, under DeepSpeed's
  // ZeRO-1 in buckets (0.19.8, runtime/zero/stage_1_and_2.py:958, reduce_gradients).
  out.sends_as_filled = out.overlaps || par.reduce_each || plan.data_comm == DataComm::shard_grads;
  out.sends_behind_backward = habits.sends_behind_backward && !par.reduce_each;
  out.operation = operation_of(job, plan.data_comm);
  out.quantised = par.zeropp.gradients;

  out.bucket_elements = elements_of_bucket(job, plan);
  out.first_bucket_elements =
      static_cast<std::int64_t>(static_cast<double>(system.first_bucket_bytes.count()) /
                                bytes_per_element(job.memory.dtypes.reduce));
  out.first_stage_only = system.bucket_first_stage_only;
  out.always_in_buckets = habits.always_in_buckets;
  out.bucket_before_overflow = system.bucket_before_overflow;
  // DeepSpeed's pipeline engine makes the bucket when it reduces, behind the passes (0.15.4,
  // runtime/zero/stage_1_and_2.py:704, reduce_gradients). Its last stage, whose loss has a backward
  // pass by the engine's own function, makes one ahead of it all the same: not modelled.
  out.bucket_before_backward = system.bucket_before_backward && job.parallelism.pipeline == 1;
  out.units_in_buckets = system.zero3_buckets;
  out.casts_flat_gradients = habits.adds_wide_after_pass && wide_gradients(job);
  out.storage = habits.bucket_storage;
  out.bucket_of_pass = has_bucket_of_pass(job, plan.data_comm);
  out.narrow_beside = system.narrow_buckets && plan.data_comm == DataComm::all_reduce &&
                      plan.data_ranks() > 1 && wide_gradients(job);
  out.live_in_buckets = system.gradient_bucket_view;
  out.on_default_group = system.data_on_default_group;
  out.sum_groups = system.sum_groups;
  out.broadcasts_buffers =
      system.broadcasts_buffers && job.model.positions == job::Positions::rotary;

  out.aligned = system.align_grad_reduce;
  out.cycle_time = system.cycle_time;
  out.hierarchical = system.hierarchical_all_reduce;
  return out;
}

ParameterGather parameter_gather_of(const job::Job& job, const Plan& plan) {
  const auto& system = job.system;
  const auto& habits = system.habits;
  const auto& par = job.parallelism;
  ParameterGather out;
  out.zero2_by_units = zero2_by_units(system);
  out.by_units = shards_units(plan.data_comm, out.zero2_by_units);
  out.overlap_stated = par.overlap.param_gather;
  out.overlaps = par.overlap.param_gather || (out.by_units && system.zero3_overlaps);
  out.aligned = system.align_param_gather;
  out.from_owners = system.reduce_to_owner;
  out.by_slices = system.gathers_slices;
  out.for_each_optimizer = system.gathers_for_each_optimizer;
  out.reshard_after_forward = par.reshard_after_forward;
  out.unit_layers = system.unit_layers;
  // Modules that share a table are a unit together, which stands as the head does
  // (accelerate 1.15.0, utils/fsdp_utils.py:874).
  const bool shared = job.model.tied_embeddings && par.pipeline == 1;
  const bool tuned = job.workload.finetune.kind != job::Finetune::Kind::none;
  const bool joined = system.joins_tied_or_frozen_ends && (shared || tuned);
  const bool wraps_ends = system.wraps_ends && !joined;
  const bool tied = shared && system.keeps_head;
  out.ends_join_root = habits.ends_join_root && (!wraps_ends || tied);
  out.ends_are_unit = out.ends_join_root && wraps_ends;
  out.keeps_head = system.keeps_head;
  out.keeps_last_layer = system.keeps_last_layer;
  out.holds_previous_gather = system.holds_previous_gather;
  out.alone = out.by_units && wraps_alone(job, par.sharding, plan.data_ranks());
  out.wraps_adapters = system.wraps_adapters && tuned;
  // Where the head's unit is kept whole, it holds the final norm, which accelerate looks for among
  // the model's own modules: PEFT's wrapper hides it (accelerate 1.15.0, utils/fsdp_utils.py:733,
  // _find_final_norm).
  const bool hidden = system.keeps_head && system.casts_adapter_inputs && tuned;
  out.norm_in_root = wraps_ends && (system.norm_in_root || hidden);
  out.whole_block_constants = out.by_units && system.whole_block_constants;
  out.flat = system.flat_parameters;
  out.unit_buffers = system.unit_buffers && out.by_units;
  out.double_buffers = system.double_buffers && out.unit_buffers;
  out.unit_buffer_elements = out.unit_buffers ? system.unit_buffer_elements : 0;
  out.by_arrays = system.gathers_arrays;
  out.experts_outside = system.experts_outside_units && out.by_units && plan.expert_data == 1;
  out.forward_prefetch = system.forward_prefetch;
  out.backward_prefetch = system.backward_prefetch;
  out.limited = system.limit_all_gathers;
  out.prefetch_elements = system.prefetch_elements;
  out.live_elements = system.live_elements;
  out.persistent_elements = system.persistent_elements;
  out.reuse_elements = system.reuse_elements;
  out.checkpointed = system.checkpoints_units;
  out.leaves_leftovers = system.backward_leftovers;
  out.kept_by_autograd = !system.memory_efficient_linear;
  out.reshards_before_reduction = habits.reshards_before_reduction;
  out.quantised = par.zeropp.weights;
  out.float8 = par.float8_all_gather;
  out.partition_stands = par.zeropp.partition > 0;
  // Units gathered whole are all that is cut again.
  if (out.by_units) {
    out.partition = out.partition_stands ? par.zeropp.partition : par.reshard_size;
  }
  return out;
}

StateLayout state_layout_of(const job::Job& job, const Plan& plan) {
  const auto& habits = job.system.habits;
  StateLayout out;
  // A unit that is one flat parameter has no rows.
  const bool rows = habits.partition == StatePartition::by_row && !job.system.flat_parameters;
  out.partition = habits.partition == StatePartition::by_row && !rows ? StatePartition::by_array
                                                                      : habits.partition;
  if (job.system.slices_arrays) {
    out.partition = StatePartition::by_array;
    out.master_is_one = true;
  }
  // DeepSpeed's stage 3 keeps its partition from step to step, as BF16_Optimizer keeps wide
  // gradients; its stages 0 to 2 keep neither gradients nor partitions (0.19.8,
  // runtime/zero/stage_1_and_2.py:3128).
  out.gradients_stand =
      habits.gradients_stand && (!habits.frees_narrow_gradients || wide_gradients(job) ||
                                 job.parallelism.sharding == Sharding::zero3);
  out.makes_sharded_gradients = habits.makes_sharded_gradients;
  out.gradients_in_parameters = job.system.gradients_in_parameters;
  out.sharded_gradients_stand = job.system.flat_parameters && job.system.original_parameters;
  // With a pipeline BF16_Optimizer adds the gradients of a micro-batch once its backward pass is
  // over (update_hp_grads): until then all of them are kept in 16 bits.
  out.pass_gradients_stand =
      habits.adds_wide_after_pass && plan.grid.pipeline > 1 && wide_gradients(job);
  out.keeps_pass_gradients = job.system.keeps_pass_gradients && wide_gradients(job);
  return out;
}

OptimizerStep optimizer_step_of(const job::Job& job, const Plan& plan) {
  const auto& system = job.system;
  const auto& habits = system.habits;
  const auto sharding = job.parallelism.sharding;
  OptimizerStep out;
  out.kind = job.memory.optimizer;
  out.momentum = job.memory.momentum;
  out.in_backward = job.memory.optimizer_in_backward;
  out.fused = system.fused_optimizer;
  out.compiled = job.kernels.compile && system.compile_scope == CompileScope::step;
  out.foreach = system.foreach_optimizer;
  out.foreach_denominator = system.foreach_denominator;
  out.by_owner = steps_by_owner(job, plan.data_comm) ||
                 (plan.parameter_gather.from_owners && (plan.data_comm == DataComm::shard_states ||
                                                        plan.data_comm == DataComm::shard_grads));
  out.orthogonalises_in_fp32 = habits.orthogonalises_in_fp32;
  out.post_validated = system.optimizer_post_validation;
  out.host_waits = system.sync_before_optimizer;
  out.norm_has_its_group = habits.norm_has_its_group;
  out.norm_on_host = habits.norm_on_host;
  out.copies_partition = habits.partition == StatePartition::flat &&
                         (sharding == Sharding::zero1 || sharding == Sharding::zero2) &&
                         job.memory.dtypes.gradients != DType::fp32;
  out.norm_widens = system.norm_copies_gradients && job.memory.dtypes.gradients != DType::fp32;
  out.gives_up_narrow = out.copies_partition && habits.flattens_before_widening;
  out.fp32_gradients_stand = habits.fp32_gradients_stand;
  out.zeroes_gradients = plan.state_layout.gradients_stand;
  out.widens_gradients = !reads_narrow_gradients(job);
  return out;
}

Recompute recompute_of(const job::Job& job) {
  const auto& stated = job.memory.recompute;
  Recompute out;
  out.kind = stated.kind;
  out.layers = stated.layers;
  out.modules = stated.modules;
  if (stated.kind == RecomputeKind::selective) {
    out.modules = {"core_attn"};
  }
  out.blocks = stated.kind == RecomputeKind::full && job.system.checkpoints_blocks;
  if (out.blocks) {
    out.kind = RecomputeKind::modules;
    out.modules = {"block_norms", "attn", "mlp"};
  }
  out.policy = stated.policy;
  out.share = stated.share;
  out.budget = stated.budget;
  out.whole_micro_batches = job.memory.whole_micro_batches;
  const bool one_layer = stated.kind == RecomputeKind::full ||
                         stated.kind == RecomputeKind::every ||
                         stated.kind == RecomputeKind::block ||
                         (stated.kind == RecomputeKind::uniform && stated.layers <= 1);
  // In a compiled layer the joint graph says what runs again, and a result that nothing reads is
  // dropped from it; each tensor goes behind its last reader.
  const bool by_need = job.system.early_stop || job.kernels.compile;
  // A linear of torchao's is an autograd function, whose tensors are saved behind its product
  // (torchao 0.10.0, float8/float8_linear.py:77), so that the last product runs again. Frameworks
  // that compile whole steps are JAX's.
  const bool saves_behind = job.system.habits.casts_operands_twice && !job.kernels.compile &&
                            job.system.compile_scope != CompileScope::step &&
                            bytes_per_element(job.workload.precision) < 2;
  const bool regions = out.kind == RecomputeKind::modules && job.system.early_stop;
  out.stops_early = ((one_layer && by_need) || regions) && !saves_behind;
  const bool frees_input = by_need || job.system.habits.checkpoint_frees_input;
  out.frees_input = one_layer && !out.blocks && frees_input && !job.system.reentrant_checkpoints;
  out.for_each_weight = job.system.weights_run_again;
  // Reentrant checkpoints run backward inside their own frame, which has the results (torch 2.7,
  // utils/checkpoint.py, CheckpointFunction.backward; megatron-core 0.16.1,
  // tensor_parallel/random.py, likewise).
  out.holds_result = stated.kind != RecomputeKind::optimal &&
                     (job.system.reentrant_checkpoints || !frees_input) &&
                     hardware::vendor_of(job.cluster.device) != hardware::Vendor::google;
  // Transformer Engine's LayerNormLinear.
  out.norms_in_products = job.system.transformer_engine;
  return out;
}

OffloadPart part_of(const job::OffloadPart& stated) { return {stated.to, stated.ratio}; }

Offload offload_of(const job::Offload& stated, const job::System& system) {
  Offload out;
  out.optimizer = part_of(stated.optimizer);
  out.parameters = part_of(stated.parameters);
  out.gradients = part_of(stated.gradients);
  out.activations = part_of(stated.activations);
  out.activation_layers = stated.activation_layers;
  out.activation_modules = stated.activation_modules;
  out.activation_form = system.activation_offload;
  out.whole_arrays = system.offloads_whole_arrays;
  out.tiling = stated.tiling;
  out.prefetch = stated.prefetch;
  out.page = stated.page;
  out.chunk = stated.chunk;
  out.pinned = stated.pinned;
  out.overlap = stated.overlap;
  out.gradient_sum = system.habits.host_gradient_sum;
  return out;
}

// Megatron-LM's own loops, whose messages block the compute stream.
bool messages_hold_compute(const job::Job& job, const Plan& plan) {
  const schedule::Entry* entry = schedule_of(job);
  return plan.order.barriers == 0 && !pairs_passes(job) && entry != nullptr && entry->plain_loop;
}

StageTransport stage_transport_of(const job::Job& job, const Plan& plan) {
  const auto& system = job.system;
  const auto& stated = job.parallelism.schedule;
  StageTransport out;
  out.overlaps = job.parallelism.overlap.pipeline;
  out.holds_compute = messages_hold_compute(job, plan);
  out.batched = system.batched_p2p;
  out.follows_pass = system.p2p_follows_pass;
  out.host_waits =
      system.sync_p2p || (system.batched_p2p && system.habits.waits_behind_batched_p2p);
  out.scatter_gather = system.scatter_gather_p2p;
  out.whole_gradients = system.whole_gradients_p2p && system.scatter_gather_p2p;
  // nanotron's queues hand a received tensor to the pass that reads it (0.4,
  // parallel/pipeline_parallel/state.py:148), and each message follows its pass.
  out.keeps_last_received = system.habits.keeps_last_received && !system.p2p_follows_pass;
  out.group = group_of(job, plan.micro_batches);
  out.extra_warmup = stated ? stated->extra_warmup : 0;
  out.forwards_first =
      system.round_forwards_first && plan.micro_batches == job.parallelism.pipeline;
  out.split_keeps_graph = system.split_keeps_graph;
  out.receives = system.stage_receives;
  out.pairs_passes = pairs_passes(job);
  out.pairs_side_by_side = system.overlap_pairs;
  return out;
}

ExpertDispatch expert_dispatch_of(const job::Job& job, const Plan& plan) {
  ExpertDispatch out;
  out.dispatcher = job.moe.dispatcher;
  // With a capacity the number of tokens is known beforehand, and in a graph of the whole step the
  // host does not take part.
  out.host_reads_counts = plan.shard.expert > 1 && out.dispatcher != Dispatcher::allgather &&
                          !job.moe.capacity_factor && !job::graphs_experts(job.kernels);
  out.grouped = job.moe.grouped;
  out.keeps_router_graph = job.system.keeps_router_graph;
  out.launches_each_expert = job.system.transformer_engine || !job.moe.grouped;
  const schedule::Entry* entry = schedule_of(job);
  out.beside =
      job.parallelism.overlap.expert && job.system.overlap_pairs &&
      (pairs_passes(job) || (job.parallelism.pipeline > 1 && entry != nullptr && entry->has_pairs));
  out.overhead = job::graphs_experts(job.kernels) ? Time(0) : job.system.expert_overhead;
  return out;
}

int inner_context_ranks(const job::Job& job, const Plan& plan) {
  const auto& par = job.parallelism;
  if (par.context_kind != ContextKind::hierarchical) {
    return 1;
  }
  if (par.context_inner > 0) {
    return par.context_inner;
  }
  // The GPUs of a node that tensor parallelism does not use.
  const int local = std::max(1, job.cluster.node.gpus / plan.grid.tensor);
  int inner = std::min(local, plan.grid.context);
  while (plan.grid.context % inner != 0) {
    --inner;
  }
  return inner;
}

EagerLoss eager_loss_of(const job::Job& job, const Plan& plan) {
  if (job.kernels.loss != LossKernel::eager) {
    return EagerLoss::as_built;
  }
  const bool cut = plan.shard.tensor > 1;
  EagerLoss habit =
      job.system.gathers_wide_logits ? EagerLoss::gathers_logits : job.system.habits.eager_loss;
  if (cut && job.kernels.loss_parallel) {
    habit = *job.kernels.loss_parallel ? EagerLoss::shards_logits : EagerLoss::gathers_logits;
  }
  const bool done = habit == EagerLoss::gathers_logits
                        ? cut && job.parallelism.tensor_kind == TensorKind::one_d
                    : habit == EagerLoss::shards_logits     ? cut
                    : habit == EagerLoss::narrow_under_fp16 ? job.workload.precision == DType::fp16
                                                            : false;
  return done ? habit : EagerLoss::as_built;
}

LossForm loss_form_of(const job::Job& job, const Plan& plan) {
  const auto& system = job.system;
  LossForm out;
  out.kernel = job.kernels.loss;
  out.eager = eager_loss_of(job, plan);
  out.outside_model = system.loss_outside_model;
  out.clears_output = system.clears_output;
  out.narrow_log_softmax = out.kernel == LossKernel::eager && out.eager == EagerLoss::as_built &&
                           system.narrow_log_softmax;
  out.holds_logits = system.holds_logits;
  out.widens_first = system.transformers_modules && !job.kernels.liger.empty();
  out.wide_output = system.wide_output && !joins_head(out.kernel);  // those return no logits
  out.gathers_wide = system.gathers_wide_logits;
  out.wide_logits = system.wide_logits;
  out.shifts = system.shifted_logits && out.kernel == LossKernel::eager;
  // FSDP2's hooks cut the graph ahead of the loss.
  const ParameterGather& gather = plan.parameter_gather;
  out.returns_logits = system.transformers_modules && plan.style.compiled_loss &&
                       out.kernel == LossKernel::eager && !out.outside_model &&
                       (!gather.by_units || gather.flat);
  out.widens_returned = out.returns_logits && system.widens_results && !gather.by_units;
  if (out.kernel == LossKernel::fused) {
    // flash-attn's: the log-sum-exp (2.8.3, losses/cross_entropy.py; ops/triton/cross_entropy.py:
    // all_gather_into_tensor, all_reduce). Transformer Engine's: maximum, denominator and predicted
    // logit (2.8.0, pytorch/triton/cross_entropy.py: m_d_X_y).
    out.gathered_statistics = system.transformer_engine ? 3 : 1;
  }
  out.logit_metrics = out.kernel == LossKernel::eager || out.kernel == LossKernel::fused
                          ? system.logit_metrics
                          : LogitMetrics::none;
  out.metrics_in_forward = system.metrics_before_backward ? system.loss_metrics : 0;
  return out;
}

TensorParallel tensor_parallel_of(const job::Job& job, const Plan& plan) {
  const auto& par = job.parallelism;
  TensorParallel out;
  out.kind = par.tensor_kind;
  out.overlap = par.overlap.tensor;
  // Transformer Engine's buffers do not carry 4-bit operands.
  const bool carried =
      (job.workload.precision != DType::nvfp4 && job.workload.precision != DType::mxfp4) ||
      !job.system.transformer_engine;
  out.product_overlap = carried ? out.overlap : TensorOverlap::none;
  out.async_backward =
      job.system.async_tensor_backward || out.product_overlap != TensorOverlap::none;
  const bool gridded = plan.shard.tensor > 1 && out.kind != TensorKind::one_d;
  const bool saves = job.system.habits.saves_gathered_inputs ||
                     (job.system.saves_gathered_inputs && !out.async_backward);
  out.saves_gathered_input =
      plan.shard.tensor > 1 && !gridded && plan.shard.sequence_parallel && saves;
  out.embedding_by_width = job.system.embedding_by_width && !gridded;
  out.norm_gradients_apart = job.system.norm_gradients_apart;
  out.local_embedding = job.system.local_embedding;
  // A compiler makes functional collectives of them, which are in the list.
  out.keeps_scattered_results = job.system.keeps_scattered_results || job.kernels.compile;
  out.linears_sum_apart = job.system.linears_sum_apart;
  out.gated_halves_apart = !job.system.packed_gated_mlp;
  return out;
}

// Low-rank adapters of a layer: their modules, of which each has two products.
int adapters_of(const Plan& plan) {
  const model::OperatorGraph layer =
      model::build_layer(plan.model, model::layer_kind(plan.model, 0), plan.shard, plan.style);
  const auto products = std::count_if(layer.operators.begin(), layer.operators.end(),
                                      [](const model::Operator& op) { return op.adapter; });
  return static_cast<int>(products) / 2;
}

HostModel host_of(const job::Job& job, const Plan& plan, const ParameterGather& gather) {
  HostModel out;
  out.cuda_graph = job::graphs_step(job.kernels);
  if (job.kernels.cuda_graph) {
    out.graphed_modules = job.kernels.cuda_graph_modules;
  }
  out.launch = job.system.launch;
  if (!out.cuda_graph) {
    out.layer_overhead = job.system.layer_overhead;
    if (job.system.adapter_overhead > Time(0) &&
        job.workload.finetune.kind != job::Finetune::Kind::none) {
      out.layer_overhead += job.system.adapter_overhead * adapters_of(plan);
    }
    if (plan.grid.pipeline > 1) {
      out.pass_overhead = job.system.pass_overhead;
    }
    if (gather.by_units) {
      out.layer_overhead += job.system.unit_overhead / gather.unit_layers;
    }
  }
  out.waits_each_micro_batch = job.system.sync_micro_batch;
  out.waits_each_launch = job.system.launch_blocking && !out.cuda_graph;
  return out;
}

DeviceMemory device_memory_of(const job::Job& job, const Plan& plan) {
  const auto& system = job.system;
  const TensorOverlap overlap = job.parallelism.overlap.tensor;
  DeviceMemory out;
  // XLA places every buffer of a TPU's program when it compiles it.
  out.allocator = hardware::vendor_of(job.cluster.device) == hardware::Vendor::google
                      ? AllocatorKind::compiled
                      : job.memory.allocator;
  out.context = system.context_memory;
  out.gemm_workspace = system.gemm_workspace;
  out.gemm_workspace_stands = system.gemm_workspace_stands;
  out.oldest_segment_first = system.oldest_segment_first;
  out.input_gradient_first = system.habits.input_gradient_first;
  out.layer_holds_normed_input = system.habits.layer_holds_normed_input;
  out.holds_projection = system.holds_projection;
  out.layer_workspace = system.transformer_engine;
  out.overlap_workspaces =
      plan.shard.tensor > 1 && (overlap == TensorOverlap::bulk || overlap == TensorOverlap::ring);
  out.shared_expert_streams = system.shared_expert_streams;
  out.grouped_workspaces = job.moe.grouped;
  // Megatron-LM's own unfused attention hands its product of scores a tensor to add to, which stays
  // in the global memory buffer (core/transformer/dot_product_attention.py, core/utils.py:
  // GlobalMemoryBuffer; since 2022). Transformer Engine's makes its own.
  out.rotary_tables = system.rotary_tables && job.model.positions == job::Positions::rotary;
  out.rotary_angles = system.keeps_rotary_angles && job.model.positions == job::Positions::rotary;
  out.rotary_caches = system.rotary_caches && job.model.positions == job::Positions::rotary;
  const bool buffer =
      system.habits.keeps_scores_buffer && !system.transformer_engine && !system.scatter_gather_p2p;
  out.scores_buffer = buffer && job.kernels.attention == AttentionKernel::unfused;
  // So does a linear's input, gathered over the sequence (core/tensor_parallel/layers.py, 0.16.1:
  // LinearWithGradAccumulationAndAsyncCommunication, "mpu"), but where autograd keeps it.
  if (buffer && !system.saves_gathered_inputs && plan.shard.sequence_parallel &&
      plan.shard.tensor > 1 && job.parallelism.tensor_kind == TensorKind::one_d) {
    out.gathered_ranks = 1;
  }
  // The tokens of all expert ranks as well (transformer/moe/token_dispatcher.py:275:
  // use_global_buffer), of which tensor ranks have a part of a sequence each.
  if (buffer && job.model.moe && job.moe.dispatcher == Dispatcher::allgather &&
      plan.shard.expert > 1) {
    out.gathered_ranks = std::max(out.gathered_ranks,
                                  plan.shard.expert * plan.shard.expert_tensor / plan.shard.tensor);
  }
  return out;
}

}  // namespace

bool accumulates_whole(const job::Job& job, DataComm comm, int pipeline) {
  const bool shards = comm == DataComm::shard_grads || comm == DataComm::shard_all;
  return !shards || !reduces_each_pass(job, comm, pipeline);
}

void set_policies(const job::Job& job, Plan& plan) {
  plan.model = job.model;
  plan.model.vocab = plan.vocab;
  plan.cluster = job.cluster;
  plan.nccl = job.nccl;
  plan.documents = job.workload.documents;
  plan.micro_batch = job.workload.micro_batch;
  plan.sharding = job.parallelism.sharding;

  plan.precision = precision_of(job, plan.data_comm);
  plan.accumulation = accumulation_of(job);
  plan.parameter_gather = parameter_gather_of(job, plan);
  plan.gradient_sync = gradient_sync_of(job, plan);
  plan.state_layout = state_layout_of(job, plan);
  plan.optimizer_step = optimizer_step_of(job, plan);
  plan.recompute = recompute_of(job);
  plan.offload = offload_of(job.memory.offload, job.system);
  plan.stage_transport = stage_transport_of(job, plan);
  plan.expert_dispatch = expert_dispatch_of(job, plan);
  plan.context_exchange = {job.parallelism.context_kind, inner_context_ranks(job, plan),
                           job.parallelism.context_balanced, job.system.context_in_steps};
  plan.loss_form = loss_form_of(job, plan);
  plan.tensor_parallel = tensor_parallel_of(job, plan);
  plan.host = host_of(job, plan, plan.parameter_gather);
  plan.device_memory = device_memory_of(job, plan);
}

std::int64_t bucket_elements(const Plan& plan) { return plan.gradient_sync.bucket_elements; }

}  // namespace stepcast::strategy
