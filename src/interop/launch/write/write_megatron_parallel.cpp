// Parallelism, batch and communication as Megatron-LM's arguments.
#include "write_megatron.h"

namespace stepcast::interop::launch {
namespace {

void zero_bubble(const Request& r, const job::Schedule& schedule, Arguments& out) {
  if (schedule.name == "zb_auto") {
    out.flag("enable-zero-bubble");
    if (schedule.memory_limit != 1) {
      out.value("zero-bubble-max-pending-backward",
                schedule.memory_limit * r.job.parallelism.pipeline);
    }
  } else if (schedule.name == "zb_v" || schedule.name == "v_half" || schedule.name == "v_min") {
    out.flag("enable-zero-bubble");
    out.flag("zero-bubble-v-schedule");
    out.value("zero-bubble-v-schedule-mem-setup", schedule.name == "zb_v"     ? "zb"
                                                  : schedule.name == "v_half" ? "half"
                                                                              : "min");
  } else {
    return;
  }
  out.flag_if(r.job.system.optimizer_post_validation, "enable-optimizer-post-validation");
}

void pipeline(const Request& r, Arguments& out) {
  const job::Parallelism& p = r.job.parallelism;
  out.value("pipeline-model-parallel-size", p.pipeline);
  if (p.virtual_pipeline > 1) {
    out.value("num-virtual-stages-per-pipeline-rank", p.virtual_pipeline);
  }
  if (p.schedule) {
    if (p.schedule->name == "interleaved_1f1b" && p.schedule->group) {
      out.value("microbatch-group-size-per-virtual-pipeline-stage", *p.schedule->group);
    }
    zero_bubble(r, *p.schedule, out);
  }
  const std::string layout =
      p.layers_per_stage.empty() ? p.layout : megatron_layout(p.layers_per_stage);
  if (!layout.empty()) {
    out.value("pipeline-model-parallel-layout", "'" + layout + "'");
  }
  out.flag_if(p.embedding_as_layer, "account-for-embedding-in-pipeline-split");
  out.flag_if(p.loss_as_layer, "account-for-loss-in-pipeline-split");
  if (p.deferred_head_wgrad > 0) {
    out.flag("defer-embedding-wgrad-compute");
    if (p.deferred_head_wgrad < job::Parallelism::kAllMicroBatches) {
      out.value("wgrad-deferral-limit", p.deferred_head_wgrad);
    }
  }
}

void context(const Request& r, Arguments& out) {
  const job::Parallelism& p = r.job.parallelism;
  if (p.context == 1) {
    return;
  }
  using Kind = job::ContextKind;
  out.value("context-parallel-size", p.context);
  out.value("cp-comm-type", p.context_kind == Kind::p2p          ? "p2p"
                            : p.context_kind == Kind::all_gather ? "allgather"
                            : p.context_kind == Kind::a2a        ? "a2a"
                                                                 : "a2a+p2p");
  if (p.context_kind == Kind::hierarchical && p.context_inner > 0) {
    out.value("hierarchical-context-parallel-sizes",
              fmt::format("{} {}", p.context_inner, p.context / p.context_inner));
  }
}

// Megatron-FSDP's word for how states are sharded.
const char* fsdp_strategy_of(job::Sharding sharding) {
  return sharding == job::Sharding::none    ? "no_shard"
         : sharding == job::Sharding::zero1 ? "optim"
         : sharding == job::Sharding::zero2 ? "optim_grads"
                                            : "optim_grads_params";
}

void unit_buffers(const Request& r, Arguments& out) {
  const job::System& system = r.job.system;
  out.flag("use-megatron-fsdp");
  out.value("data-parallel-sharding-strategy", fsdp_strategy_of(r.job.parallelism.sharding));
  out.value("ckpt-format", "fsdp_dtensor");
  out.flag_if(system.double_buffers, "fsdp-double-buffer");
  if (system.unit_buffer_elements > 0) {
    out.value("suggested-communication-unit-size", system.unit_buffer_elements);
  }
}

void data(const Request& r, Arguments& out) {
  const job::Parallelism& p = r.job.parallelism;
  if (r.job.system.unit_buffers) {
    unit_buffers(r, out);
  } else if (p.sharding == job::Sharding::zero1) {
    out.flag("use-distributed-optimizer");
  } else if (p.sharding != job::Sharding::none) {
    out.flag("use-megatron-fsdp");
    out.value("data-parallel-sharding-strategy",
              p.sharding == job::Sharding::zero2 ? "optim_grads" : "optim_grads_params");
  }
  if (p.shard_size && *p.shard_size < r.data()) {
    out.value("num-distributed-optimizer-instances", r.data() / *p.shard_size);
  }
  out.flag_if(p.overlap.grad_reduce, "overlap-grad-reduce");
  out.flag_if(p.overlap.param_gather, "overlap-param-gather");
  if (r.job.system.bucket_elements > 0) {
    out.value("ddp-bucket-size", r.job.system.bucket_elements);
  }
}

void experts(const Request& r, Arguments& out) {
  const job::Parallelism& p = r.job.parallelism;
  const job::MoeRuntime& moe = r.job.moe;
  if (!r.job.model.moe) {
    return;
  }
  out.group();
  out.value("expert-model-parallel-size", p.expert);
  out.value("expert-tensor-parallel-size", p.expert_tensor);
  using Dispatcher = job::MoeRuntime::Dispatcher;
  if (moe.dispatcher == Dispatcher::deepep || moe.dispatcher == Dispatcher::hybridep) {
    out.value("moe-token-dispatcher-type", "flex");
    out.value("moe-flex-dispatcher-backend",
              moe.dispatcher == Dispatcher::deepep ? "deepep" : "hybridep");
  } else {
    out.value("moe-token-dispatcher-type",
              moe.dispatcher == Dispatcher::allgather ? "allgather" : "alltoall");
  }
  out.flag_if(moe.grouped, "moe-grouped-gemm");
  out.flag_if(moe.fused_permute, "moe-permute-fusion");
  if (moe.capacity_factor) {
    out.value("moe-expert-capacity-factor", *moe.capacity_factor);
    out.flag_if(moe.pad_to_capacity, "moe-pad-expert-input-to-capacity");
  }
  out.flag_if(p.overlap.expert, "overlap-moe-expert-parallel-comm");
  out.flag_if(p.overlap.shared_expert, "moe-shared-expert-overlap");
}

}  // namespace

void write_megatron_parallel(const Request& r, Arguments& out) {
  const job::Parallelism& p = r.job.parallelism;
  out.group();
  out.value("micro-batch-size", r.job.workload.micro_batch);
  out.value("global-batch-size", r.job.workload.global_batch);
  out.group();
  out.value("tensor-model-parallel-size", p.tensor);
  out.flag_if(p.sequence_parallel, "sequence-parallel");
  out.flag_if(p.overlap.tensor == job::TensorOverlap::ring, "tp-comm-overlap");
  out.flag_if(r.differs("system.async_tensor_backward"),
              "no-async-tensor-model-parallel-allreduce");
  context(r, out);
  out.group();
  pipeline(r, out);
  out.flag_if(r.differs("parallelism.overlap.pipeline") && !p.overlap.pipeline,
              "no-overlap-p2p-communication");
  out.flag_if(r.differs("parallelism.overlap.pipeline") && p.overlap.pipeline,
              "overlap-p2p-communication");
  out.flag_if(r.differs("system.scatter_gather_p2p"), "no-scatter-gather-tensors-in-pipeline");
  out.group();
  data(r, out);
  experts(r, out);
}

}  // namespace stepcast::interop::launch
