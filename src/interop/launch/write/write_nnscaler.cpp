// Writes nnScaler's YAML of its command-line trainer: the plan as compute_config and pas_config.
#include "stepcast/schedule/schedule.h"
#include "writer.h"

namespace stepcast::interop::launch {
namespace {

const char* scheduler(const job::Parallelism& p) {
  const std::string_view name =
      p.schedule ? std::string_view(p.schedule->name) : schedule::implied(p.virtual_pipeline);
  return name == "1f1b"               ? "1f1b"
         : name == "gpipe"            ? "gpipe"
         : name == "interleaved_1f1b" ? "1f1b_interleaved"
         : name == "chimera"          ? "chimera_direct"
                                      : nullptr;
}

Written write_nnscaler(const Request& r) {
  const job::Job& j = r.job;
  const job::Parallelism& p = j.parallelism;
  const int plan = p.tensor * p.pipeline;
  Sections out;
  out.section("");
  out.add("pas_policy", plan == 1         ? "dp"
                        : p.tensor == 1   ? "pp"
                        : p.pipeline == 1 ? "tp"
                                          : "hybrid");
  const job::DType in = j.workload.precision;
  if (in == job::DType::fp32 || in == job::DType::bf16 || in == job::DType::fp16) {
    out.add("precision", job::to_string(in));
  }
  out.add("micro_batch_size", j.workload.micro_batch);
  out.add("grad_accumulation_steps", r.micro_batches());
  out.add("global_batch_size", j.workload.global_batch);
  out.section("compute_config").add("plan_ngpus", plan);
  out.add("runtime_ngpus", j.cluster.ranks());
  if (p.sharding == job::Sharding::none || p.sharding == job::Sharding::zero1) {
    out.add("use_zero", p.sharding == job::Sharding::zero1);
  }
  if (p.shard_size) {
    out.add("zero_ngroups", r.data() / *p.shard_size);
  }
  out.add("use_async_reducer", p.overlap.grad_reduce);
  if (r.differs("system.zero1_all_reduces")) {
    out.add("zero_use_reduce_scatter", !j.system.zero1_all_reduces);
  }
  constexpr std::int64_t kMiB = 1 << 20;
  if (r.differs("system.bucket_bytes") && j.system.bucket_bytes.count() % kMiB == 0) {
    out.add("reducer_bucket_cap_mb", j.system.bucket_bytes.count() / kMiB);
  }
  if (p.pipeline > 1) {
    out.section("compute_config.pas_config").add("pipeline_nstages", p.pipeline);
    out.add("pipeline_nmicros", r.micro_batches());
    if (const char* name = scheduler(p)) {
      out.add("pipeline_scheduler", name);
    }
  }
  out.section("optimizer");
  if (j.memory.optimizer == job::Optimizer::adamw) {
    out.add("type", "torch.optim.AdamW");
  }
  if (r.differs("system.fused_optimizer")) {
    out.section("optimizer.args").add("fused", j.system.fused_optimizer);
  }
  return {out.yaml()};
}

}  // namespace

const Writer& nnscaler_writer() {
  constexpr const char* kScript = "the model's own modules";
  static const Writer writer = {
      "nnscaler",
      "nnScaler's YAML",
      ".yaml",
      "# ",
      {"nnscaler"},
      write_nnscaler,
      {{"model", kScript},
       {"kernels.attention", kScript},
       {"kernels.loss", kScript},
       {"kernels.library", "the installed cuBLAS"},
       {"memory.recompute", "the model's forward marks what is recomputed"},
       {"memory.allocator", "PYTORCH_CUDA_ALLOC_CONF"},
       {"moe.balance", "what the router decides"},
       {"moe.grouped", kScript},
       {"moe.fused_permute", kScript},
       {"moe.indexed", kScript},
       {"moe.gathered_biases", kScript},
       {"workload.sequence_length", "the training data"},
       {"workload.documents", "the training data"},
       {"workload.tokens", "the length of the run"}},
  };
  return writer;
}

}  // namespace stepcast::interop::launch
