// Writes Accelerate's YAML (accelerate config) of FSDP and DDP, and TrainingArguments.
#include "writer.h"

namespace stepcast::interop::launch {
namespace {

const char* prefetch(job::System::Prefetch p) {
  using Prefetch = job::System::Prefetch;
  return p == Prefetch::explicit_   ? "BACKWARD_PRE"
         : p == Prefetch::implicit_ ? "BACKWARD_POST"
                                    : "NO_PREFETCH";
}

// The sharding strategy of FSDP1, which replicates only across nodes.
const char* strategy(const Request& r) {
  const job::Parallelism& p = r.job.parallelism;
  const bool hybrid = p.shard_size && *p.shard_size == r.job.cluster.node.gpus;
  return hybrid ? (p.reshard_after_forward ? "HYBRID_SHARD" : "HYBRID_SHARD_ZERO2")
                : (p.reshard_after_forward ? "FULL_SHARD" : "SHARD_GRAD_OP");
}

void fsdp(const Request& r, Sections& out) {
  const job::Job& j = r.job;
  const bool flat = j.system.flat_parameters;
  out.section("fsdp_config").add("fsdp_version", flat ? 1 : 2);
  if (flat) {
    out.add("fsdp_sharding_strategy", strategy(r));
    out.add("fsdp_backward_prefetch", prefetch(j.system.backward_prefetch));
    out.add("fsdp_forward_prefetch", j.system.forward_prefetch == job::System::Prefetch::explicit_);
    out.add("fsdp_use_orig_params", true);
  } else {
    out.add("fsdp_reshard_after_forward", j.parallelism.reshard_after_forward);
  }
  out.add("fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP");
  out.add("fsdp_offload_params", j.memory.offload.parameters.to == job::OffloadTarget::cpu);
  out.add("fsdp_activation_checkpointing", j.memory.recompute.kind == job::Recompute::Kind::full);
  out.add("fsdp_cpu_ram_efficient_loading", true);
  out.add("fsdp_state_dict_type", "SHARDED_STATE_DICT");
}

void axes(const Request& r, Sections& out) {
  const job::Parallelism& p = r.job.parallelism;
  const bool sharded = p.sharding == job::Sharding::zero3;
  const bool replicas = sharded && p.shard_size && !r.job.system.flat_parameters;
  out.section("parallelism_config");
  if (replicas) {
    out.add("parallelism_config_dp_replicate_size", r.data() / *p.shard_size);
    out.add("parallelism_config_dp_shard_size", *p.shard_size);
  }
  if (p.tensor > 1) {
    out.add("parallelism_config_tp_size", p.tensor);
  }
  if (p.context > 1) {
    out.add(p.context_kind == job::ContextKind::a2a ? "parallelism_config_sp_size"
                                                    : "parallelism_config_cp_size",
            p.context);
  }
}

const char* optim(job::Optimizer optimizer) {
  using Optimizer = job::Optimizer;
  return optimizer == Optimizer::adamw              ? "adamw_torch"
         : optimizer == Optimizer::adamw_8bit       ? "adamw_bnb_8bit"
         : optimizer == Optimizer::adamw_8bit_paged ? "paged_adamw_8bit"
         : optimizer == Optimizer::adafactor        ? "adafactor"
         : optimizer == Optimizer::lion             ? "lion_32bit"
         : optimizer == Optimizer::sgd              ? "sgd"
                                                    : "";
}

Written write_accelerate(const Request& r) {
  const job::Job& j = r.job;
  const bool sharded = j.parallelism.sharding == job::Sharding::zero3;
  Sections out;
  out.section("").add("compute_environment", "LOCAL_MACHINE");
  out.add("distributed_type", sharded ? "FSDP" : "MULTI_GPU");
  const job::DType in = j.workload.precision;
  if (in == job::DType::bf16 || in == job::DType::fp16 || in == job::DType::fp8 ||
      in == job::DType::fp32) {
    out.text("mixed_precision", in == job::DType::fp32 ? "no" : job::to_string(in));
  }
  out.add("num_machines", j.cluster.nodes).add("num_processes", j.cluster.ranks());
  out.add("machine_rank", 0).add("main_training_function", "main");
  out.add("rdzv_backend", "c10d").add("same_network", true).add("use_cpu", false);
  if (sharded) {
    fsdp(r, out);
  }
  axes(r, out);
  if (j.kernels.compile) {
    out.section("dynamo_config").add("dynamo_backend", "INDUCTOR");
  }
  Written written{out.yaml()};
  const auto argue = [&](const char* name, const auto& value) {
    written.arguments.push_back(fmt::format("{}={}", name, value));
  };
  argue("per_device_train_batch_size", j.workload.micro_batch);
  argue("gradient_accumulation_steps", r.micro_batches());
  argue("max_seq_length", j.workload.sequence_length);
  if (!sharded && j.memory.recompute.kind == job::Recompute::Kind::full) {
    argue("gradient_checkpointing", true);
  }
  if (const std::string name = optim(j.memory.optimizer);
      !name.empty() && j.memory.optimizer != job::Optimizer::adamw) {
    argue("optim", name);
  }
  if (r.differs("memory.dtypes.parameters")) {
    argue("dtype", j.memory.dtypes.parameters == job::DType::bf16   ? "bfloat16"
                   : j.memory.dtypes.parameters == job::DType::fp16 ? "float16"
                                                                    : "float32");
  }
  if (r.differs("kernels.attention") || r.differs("system.scaled_dot_product")) {
    using Kernel = job::AttentionKernel;
    const Kernel kernel = j.kernels.attention;
    argue("attn_implementation", kernel == Kernel::unfused  ? "eager"
                                 : kernel == Kernel::flash3 ? "flash_attention_3"
                                 : kernel == Kernel::cudnn  ? "sdpa"
                                                            : "flash_attention_2");
  }
  return written;
}

}  // namespace

const Writer& accelerate_writer() {
  constexpr const char* kScript = "the training script builds the model";
  static const Writer writer = {
      "accelerate",
      "Accelerate's YAML",
      ".yaml",
      "# ",
      {"transformers", "pytorch-fsdp1", "pytorch-fsdp2", "pytorch-ddp"},
      write_accelerate,
      {{"model", kScript},
       {"kernels.loss", kScript},
       {"kernels.library", "the installed cuBLAS"},
       {"memory.allocator", "PYTORCH_CUDA_ALLOC_CONF"},
       {"memory.dtypes.reduce", "MixedPrecision's reduce_dtype, which the script gives"},
       {"moe.balance", "what the router decides"},
       {"moe.grouped", kScript},
       {"moe.fused_permute", kScript},
       {"moe.indexed", kScript},
       {"moe.gathered_biases", kScript},
       {"workload.documents", "the training data"},
       {"workload.finetune", kScript},
       {"workload.tokens", "the length of the run"}},
  };
  return writer;
}

}  // namespace stepcast::interop::launch
