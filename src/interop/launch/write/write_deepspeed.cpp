// Writes ds_config.json (docs/_pages/config-json.md of DeepSpeed).
#include "writer.h"

namespace stepcast::interop::launch {
namespace {

int stage_of(job::Sharding sharding) { return static_cast<int>(sharding); }

const char* torch_format(job::DType type) {
  return type == job::DType::bf16 ? "bf16" : type == job::DType::fp16 ? "fp16" : "fp32";
}

const char* device(job::OffloadTarget target) {
  return target == job::OffloadTarget::nvme ? "nvme" : "cpu";
}

void zero(const Request& r, Sections& out) {
  const job::Job& j = r.job;
  const job::Parallelism& p = j.parallelism;
  const job::Offload& o = j.memory.offload;
  out.section("zero_optimization").add("stage", stage_of(p.sharding));
  const bool overlaps_anyway = p.sharding == job::Sharding::zero3 && j.system.zero3_overlaps;
  if (p.overlap.grad_reduce || !overlaps_anyway) {  // else what DeepSpeed takes for nothing stated
    out.add("overlap_comm", p.overlap.grad_reduce);
  }
  out.add("reduce_bucket_size", j.system.bucket_elements);
  if (p.sharding == job::Sharding::zero3) {
    out.add("stage3_prefetch_bucket_size", j.system.prefetch_elements);
    out.add("stage3_max_live_parameters", j.system.live_elements);
    out.add("stage3_max_reuse_distance", j.system.reuse_elements);
    out.add("stage3_param_persistence_threshold", j.system.persistent_elements);
    if (!j.system.memory_efficient_linear) {
      out.add("memory_efficient_linear", false);
    }
    if (p.shard_size) {
      out.add("mics_shard_size", *p.shard_size);
    }
    if (p.zeropp.partition > 1) {
      out.add("zero_hpz_partition_size", p.zeropp.partition);
    }
    if (p.zeropp.weights) {
      out.add("zero_quantized_weights", true);
    }
    if (p.zeropp.gradients) {
      out.add("zero_quantized_gradients", true);
    }
  }
  if (o.chunk.count() > 0) {
    out.add("sub_group_size", o.chunk.count() / 2);  // elements of 16 bits
  }
  if (o.optimizer.to != job::OffloadTarget::none) {
    out.section("zero_optimization.offload_optimizer").text("device", device(o.optimizer.to));
    out.add("pin_memory", o.pinned);
    if (o.optimizer.ratio != 1) {
      out.add("ratio", o.optimizer.ratio);
    }
    if (o.optimizer.to == job::OffloadTarget::nvme && o.prefetch > 0) {
      out.add("pipeline_read", true).add("pipeline_write", true);
    }
  }
  if (o.parameters.to != job::OffloadTarget::none) {
    out.section("zero_optimization.offload_param").text("device", device(o.parameters.to));
    out.add("pin_memory", o.pinned);
  }
}

Written write_deepspeed(const Request& r) {
  const job::Job& j = r.job;
  const job::Parallelism& p = j.parallelism;
  Sections out;
  out.section("").add("train_batch_size", j.workload.global_batch);
  out.add("train_micro_batch_size_per_gpu", j.workload.micro_batch);
  out.add("gradient_accumulation_steps", r.micro_batches());
  if (r.differs("memory.dtypes.reduce")) {
    out.text("communication_data_type", torch_format(j.memory.dtypes.reduce));
  }
  if (p.context > 1 && p.context_kind == job::ContextKind::a2a) {
    out.add("sequence_parallel_size", p.context);
  }
  if (j.workload.precision == job::DType::bf16 || j.workload.precision == job::DType::fp16) {
    out.section(j.workload.precision == job::DType::bf16 ? "bf16" : "fp16").add("enabled", true);
  }
  zero(r, out);
  if (r.differs("memory.dtypes.gradients")) {
    out.section("data_types").text("grad_accum_dtype", torch_format(j.memory.dtypes.gradients));
  }
  if (p.tensor > 1) {
    out.section("tensor_parallel").add("autotp_size", p.tensor);
  }
  if (p.expert > 1) {
    out.section("expert_parallel").add("autoep_size", p.expert);
  }
  if (p.pipeline > 1) {
    out.section("pipeline").add("stages", p.pipeline);
  }
  if (j.memory.offload.activations.to == job::OffloadTarget::cpu) {
    out.section("activation_checkpointing").add("cpu_checkpointing", true);
  }
  if (j.memory.optimizer == job::Optimizer::adamw) {
    out.section("optimizer").text("type", "AdamW");
  } else if (j.memory.optimizer == job::Optimizer::lion) {
    out.section("optimizer").text("type", "Lion");
  } else if (j.memory.optimizer == job::Optimizer::muon) {
    out.section("optimizer").text("type", "Muon");
  }
  return {out.json()};
}

}  // namespace

const Writer& deepspeed_writer() {
  constexpr const char* kScript = "the training script builds the model";
  static const Writer writer = {
      "deepspeed",
      "DeepSpeed's JSON",
      ".json",
      "",
      {"deepspeed", "transformers-deepspeed"},
      write_deepspeed,
      {{"model", kScript},
       {"kernels", kScript},
       {"moe", kScript},
       {"memory.recompute", "the training script checkpoints its layers"},
       {"memory.allocator", "PYTORCH_CUDA_ALLOC_CONF"},
       {"workload.sequence_length", "the training script's data"},
       {"workload.documents", "the training script's data"},
       {"workload.tokens", "the length of the run"},
       {"workload.finetune", kScript}},
  };
  return writer;
}

}  // namespace stepcast::interop::launch
