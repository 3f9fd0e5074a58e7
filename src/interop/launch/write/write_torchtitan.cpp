// Writes torchtitan's TOML (torchtitan/config/job_config.py).
#include <algorithm>
#include <array>

#include "stepcast/schedule/schedule.h"
#include "writer.h"

namespace stepcast::interop::launch {
namespace {

struct Flavor {
  std::string_view model;
  std::string_view name;
  std::string_view flavor;
};
// torchtitan/models/*/__init__.py
constexpr std::array<Flavor, 5> kFlavors = {{{"llama-3.1-8b", "llama3", "8B"},
                                             {"llama-3.1-70b", "llama3", "70B"},
                                             {"llama-3.1-405b", "llama3", "405B"},
                                             {"deepseek-v3", "deepseek_v3", "671B"},
                                             {"deepseek-v2-lite", "deepseek_v3", "16B"}}};

struct Name {
  std::string_view ours;
  std::string_view torch;
  bool several;  // stages of a rank
};
constexpr std::array<Name, 7> kSchedules = {{{"1f1b", "1F1B", false},
                                             {"gpipe", "GPipe", false},
                                             {"interleaved_1f1b", "Interleaved1F1B", true},
                                             {"looped_bfs", "LoopedBFS", true},
                                             {"interleaved_zb", "InterleavedZeroBubble", true},
                                             {"zb_v", "ZBVZeroBubble", false},
                                             {"dualpipe_v", "DualPipeV", false}}};

const char* torchtitan_format(job::DType type) {
  return type == job::DType::fp32 ? "float32" : type == job::DType::fp16 ? "float16" : "bfloat16";
}

void pipeline(const Request& r, Sections& out) {
  const job::Parallelism& p = r.job.parallelism;
  out.add("pipeline_parallel_degree", p.pipeline);
  if (p.pipeline == 1) {
    return;
  }
  out.add("pipeline_parallel_microbatch_size", r.job.workload.micro_batch);
  const std::string_view name =
      p.schedule ? std::string_view(p.schedule->name) : schedule::implied(p.virtual_pipeline);
  const auto* found = std::find_if(kSchedules.begin(), kSchedules.end(),
                                   [&](const Name& n) { return n.ours == name; });
  if (found != kSchedules.end()) {
    out.text("pipeline_parallel_schedule", found->torch);
  } else if (p.schedule && !p.schedule->table.empty()) {
    out.text("pipeline_parallel_schedule_csv", name);
  }
  const int first = p.embedding_as_layer ? 1 : 0;
  const int last = p.loss_as_layer ? 1 : 0;
  if (found != kSchedules.end() && found->several) {
    const int chunks = p.pipeline * p.virtual_pipeline;
    out.add("pipeline_parallel_layers_per_stage",
            (r.job.model.layers + first + last + chunks - 1) / chunks);
  }
  out.add("pipeline_parallel_first_stage_less_layers", first);
  out.add("pipeline_parallel_last_stage_less_layers", last);
}

void parallelism(const Request& r, Sections& out) {
  const job::Parallelism& p = r.job.parallelism;
  out.section("parallelism");
  const int data = r.data();
  const bool sharded = p.sharding == job::Sharding::zero3;
  const int shard = sharded && p.shard_size ? std::max(1, *p.shard_size / p.context)
                    : sharded               ? data
                                            : 1;
  out.add("data_parallel_replicate_degree", data / shard);
  out.add("data_parallel_shard_degree", shard);
  if (sharded && p.reshard_size == 0) {
    out.text("fsdp_reshard_after_forward", p.reshard_after_forward ? "always" : "never");
  }
  out.add("tensor_parallel_degree", p.tensor);
  if (p.tensor > 1) {
    out.add("enable_async_tensor_parallel", p.overlap.tensor == job::TensorOverlap::async);
    if (!r.job.kernels.loss_parallel.value_or(true)) {
      out.add("disable_loss_parallel", true);
    }
  }
  if (r.differs("parallelism.sequence_parallel")) {
    out.add("enable_sequence_parallel", p.sequence_parallel);
  }
  pipeline(r, out);
  out.add("context_parallel_degree", p.context);
  if (p.context > 1) {
    if (p.context_kind == job::ContextKind::all_gather || p.context_kind == job::ContextKind::p2p) {
      out.text("context_parallel_rotate_method",
               p.context_kind == job::ContextKind::all_gather ? "allgather" : "alltoall");
    }
    out.text("context_parallel_load_balancer", p.context_balanced ? "headtail" : "none");
  }
  if (r.job.model.moe) {
    out.add("expert_parallel_degree", p.expert);
    out.add("expert_tensor_parallel_degree", p.expert_tensor);
    using Dispatcher = job::MoeRuntime::Dispatcher;
    const Dispatcher d = r.job.moe.dispatcher;
    if (d != Dispatcher::allgather) {
      out.text("expert_parallel_comm_backend", d == Dispatcher::deepep     ? "deepep"
                                               : d == Dispatcher::hybridep ? "hybridep"
                                                                           : "standard");
    }
  }
}

void recompute(const job::Recompute& recompute, Sections& out) {
  using Kind = job::Recompute::Kind;
  out.section("activation_checkpoint");
  if (recompute.kind == Kind::none || recompute.kind == Kind::full) {
    out.text("mode", recompute.kind == Kind::none ? "none" : "full");
  } else if (recompute.kind == Kind::per_op && recompute.share < 1) {
    out.text("mode", "memory_budget").add("memory_budget", recompute.share);
  } else if (recompute.kind == Kind::per_op) {
    out.text("mode", "selective").text("selective_ac_option", "op");
  } else if (recompute.kind == Kind::every) {
    out.text("mode", "selective").text("selective_ac_option", fmt::format("{}", recompute.layers));
  }
}

Written write_torchtitan(const Request& r) {
  const job::Job& j = r.job;
  Sections out;
  out.section("model");
  for (const Flavor& one : kFlavors) {
    if (one.model == j.model.name) {
      out.text("name", one.name).text("flavor", one.flavor);
    }
  }
  const job::DType in = j.workload.precision;
  const bool rows = in == job::DType::fp8_block;
  const bool eight = in == job::DType::fp8 || rows || in == job::DType::mxfp8;
  if (eight) {
    out.raw("converters", in == job::DType::mxfp8 ? "[\"mx\"]" : "[\"float8\"]");
  }
  const Float8Gather gather = j.parallelism.float8_all_gather;
  if (rows) {
    out.section("quantize.linear.float8").text("recipe_name", "rowwise");
  } else if (gather != Float8Gather::none) {
    out.section("quantize.linear.float8").add("enable_fsdp_float8_all_gather", true);
    out.add("precompute_float8_dynamic_scale_for_fsdp", gather == Float8Gather::precomputed);
  }
  out.section("training").add("seq_len", j.workload.sequence_length);
  const bool stages = j.parallelism.pipeline > 1;
  out.add("local_batch_size", stages ? j.workload.global_batch / r.data() : j.workload.micro_batch);
  out.add("global_batch_size", j.workload.global_batch);
  if (eight || in == job::DType::bf16 || in == job::DType::fp16 || in == job::DType::fp32) {
    out.text("mixed_precision_param", torchtitan_format(in));
  }
  out.text("mixed_precision_reduce", torchtitan_format(j.memory.dtypes.reduce));
  if (r.differs("memory.dtypes.parameters")) {
    out.text("dtype", torchtitan_format(j.memory.dtypes.parameters));
  }
  if (j.memory.offload.optimizer.to == job::OffloadTarget::cpu) {
    out.add("enable_cpu_offload", true);
  }
  parallelism(r, out);
  recompute(j.memory.recompute, out);
  out.section("compile").add("enable", j.kernels.compile);
  if (j.kernels.compile) {
    out.raw("components", "[\"model\", \"loss\"]");
  }
  out.section("optimizer");
  if (j.memory.optimizer == job::Optimizer::adamw) {
    out.text("name", "AdamW");
  }
  if (r.differs("system.fused_optimizer")) {
    out.text("implementation", j.system.fused_optimizer ? "fused" : "for-loop");
  }
  return {out.toml()};
}

}  // namespace

const Writer& torchtitan_writer() {
  constexpr const char* kModel = "torchtitan/models has other sizes in code";
  static const Writer writer = {
      "torchtitan",
      "torchtitan's TOML",
      ".toml",
      "# ",
      {"torchtitan"},
      write_torchtitan,
      {{"model", kModel},
       {"kernels.attention", "PyTorch's SDPA chooses"},
       {"kernels.library", "the installed cuBLAS"},
       {"kernels.fp8_attention", "the recipe's numerics"},
       {"kernels.fused_casts", "the recipe's numerics"},
       {"kernels.casts_apart", "the recipe's numerics"},
       {"moe.fp8_dispatch", "the recipe's numerics"},
       {"moe.fused_permute", "torchtitan's own kernels"},
       {"moe.indexed", "torchtitan's own kernels"},
       {"moe.wide_router", "torchtitan's own kernels"},
       {"moe.wide_weighing", "torchtitan's own kernels"},
       {"moe.gathered_biases", "torchtitan's own kernels"},
       {"memory.fp8_activation_input", "the recipe's numerics"},
       {"memory.kept_weight_copies", "Transformer Engine's, which it does not use"},
       {"memory.fp12_attention_output", "the recipe's numerics"},
       {"kernels.loss", "the loss that the model's code calls"},
       {"kernels.cuda_graph", "torch.compile's mode"},
       {"memory.allocator", "PYTORCH_CUDA_ALLOC_CONF"},
       {"moe.balance", "what the router decides"},
       {"moe.grouped", kModel},
       {"workload.documents", "the training data"},
       {"workload.tokens", "the length of the run"}},
  };
  return writer;
}

}  // namespace stepcast::interop::launch
