// Accelerate's YAML (accelerate config), with TrainingArguments or DeepSpeed's JSON.
#include <fmt/format.h>

#include "../options/batch.h"
#include "../options/fsdp.h"
#include "../options/launchers.h"
#include "../options/models.h"
#include "../options/offload.h"
#include "../options/parallelism.h"
#include "../options/rule.h"
#include "../options/why.h"
#include "../systems/deepspeed.h"
#include "readers.h"
#include "trainer.h"

namespace stepcast::interop::launch {
namespace {

void kind(Draft& d, const Setting& s, std::string_view) {
  const std::string type = plain_text(s.value);
  if (type == "FSDP") {
    d.set(s, "parallelism.sharding", "zero3");
  } else if (type == "DEEPSPEED") {
    d.preset = "deepspeed";
  } else if (type == "MEGATRON_LM") {
    d.preset = "megatron-lm";
  } else if (type == "MULTI_GPU" || type == "NO" || type == "no" || type == "false") {
    d.set(s, "parallelism.sharding", "none");
  } else {
    d.refuse(s, fmt::format("{} is '{}'; expected FSDP | DEEPSPEED | MEGATRON_LM | MULTI_GPU | NO",
                            s.shown, type));
  }
}

void accelerate_precision(Draft& d, const Setting& s, std::string_view key) {
  const std::string format = plain_text(s.value);
  d.set(s, key,
        format == "no" || format == "false" ? std::string_view("fp32") : std::string_view(format));
  // FSDP1 reduces in the format of the parameters in use; without mixed precision in fp32.
  if (format == "no" || format == "false") {
    d.set(s, "memory.dtypes.reduce", "fp32");
  }
}

void accelerate_reshard(Draft& d, const Setting& s, std::string_view key) {
  const std::string word = plain_text(s.value);
  if (word.find("SHARD") != std::string::npos) {  // a strategy of FSDP1
    fsdp_strategy(d, s, "");
  } else {
    d.set(s, key, is_true(s));
  }
}

void named_config(Draft& d, const Setting& s, std::string_view) {
  d.meaningless(s, "its file is read as well");
}

}  // namespace

// Whether a setting is of the YAML that `accelerate launch --config_file` names.
bool of_accelerate(const Setting& s) {
  return s.name == "compute-environment" || s.name == "distributed-type";
}

const std::vector<Rule>& accelerate_rules() {
  static const std::vector<Rule> list = {
      {"config-file", "", named_config},
      {"distributed-type", "parallelism.sharding", kind},
      {"mixed-precision", "workload.precision", accelerate_precision},
      {"num-processes", "cluster.nodes", stated_processes},
      {"gradient-accumulation-steps", "workload.global_batch", later},
      {"fsdp-config.fsdp-sharding-strategy", "parallelism.sharding", fsdp_strategy},
      {"fsdp-config.fsdp-reshard-after-forward", "parallelism.reshard_after_forward",
       accelerate_reshard},
      {"fsdp-config.fsdp-backward-prefetch", "", fsdp_backward_prefetch},
      spelling("fsdp-config.fsdp-backward-prefetch-policy", "fsdp-config.fsdp-backward-prefetch"),
      {"fsdp-config.fsdp-forward-prefetch", "", fsdp_forward_prefetch},
      {"fsdp-config.fsdp-offload-params", "memory.offload", fsdp_offloaded_if_true},
      {"fsdp-config.fsdp-activation-checkpointing", "memory.recompute", full_recompute},
      {"fsdp-config.fsdp-auto-wrap-policy", "", fsdp_wrapping},
      {"fsdp-config.fsdp-version", "", fsdp_version},
      {"parallelism-config.parallelism-config-dp-replicate-size", "parallelism.shard_size", later},
      {"parallelism-config.parallelism-config-dp-shard-size", "parallelism.shard_size", later},
      {"parallelism-config.parallelism-config-tp-size", "parallelism.tensor"},
      {"parallelism-config.parallelism-config-cp-size", "parallelism.context.size"},
      {"parallelism-config.parallelism-config-sp-size", "parallelism.context.size", ulysses},
      {"deepspeed-config.zero-stage", "parallelism.sharding", zero_stage},
      {"deepspeed-config.offload-optimizer-device", "memory.offload.optimizer", offloaded_to},
      {"deepspeed-config.offload-param-device", "memory.offload.parameters", offloaded_to},
      {"deepspeed-config.gradient-accumulation-steps", "workload.global_batch", later},
      {"deepspeed-config.deepspeed-config-file", "", trainer_under_deepspeed},
      {"megatron-lm-config.megatron-lm-tp-degree", "parallelism.tensor"},
      {"megatron-lm-config.megatron-lm-pp-degree", "parallelism.pipeline"},
      {"megatron-lm-config.megatron-lm-num-micro-batches", "workload.global_batch", later},
      {"megatron-lm-config.megatron-lm-sequence-parallelism", "parallelism.sequence_parallel", yes},
      {"megatron-lm-config.megatron-lm-use-distributed-optimizer", "parallelism.sharding",
       if_true<"zero1">},
      {"megatron-lm-config.megatron-lm-recompute-activations", "memory.recompute",
       if_true<"selective">},
      {"dynamo-config.dynamo-backend", "kernels.compile",
       [](Draft& d, const Setting& s, std::string_view key) {
         d.set(s, key, plain_text(s.value) != "NO" && plain_text(s.value) != "no");
       }},
  };
  return list;
}

const std::vector<Unread>& accelerate_meaningless() {
  static const std::vector<Unread> list = {
      {"compute-environment", why::kProcesses},
      {"debug", why::kLogging},
      {"downcast-bf16", "of TPUs"},
      {"enable-cpu-affinity", why::kProcesses},
      {"machine-rank", why::kProcesses},
      {"main-*", why::kProcesses},
      {"num-machines", "num_processes states the size"},
      {"rdzv-*", why::kProcesses},
      {"same-network", why::kProcesses},
      {"tpu-*", "of TPUs"},
      {"use-cpu", why::kProcesses},
      {"gpu-ids", why::kProcesses},
      {"commands", why::kProcesses},
      {"command-file", why::kProcesses},
      {"fsdp-config.fsdp-cpu-ram-efficient-loading", why::kLoading},
      {"fsdp-config.fsdp-sync-module-states", why::kLoading},
      {"fsdp-config.fsdp-state-dict-type", why::kCheckpoints},
      {"fsdp-config.fsdp-use-orig-params", why::kViews},
      {"fsdp-config.fsdp-transformer-layer-cls-to-wrap", why::kUnit},
      {"fsdp-config.fsdp-ignored-modules", "no module is left out"},
      {"deepspeed-config.deepspeed-*", why::kProcesses},
      {"deepspeed-config.zero3-init-flag", why::kLoading},
      {"deepspeed-config.zero3-save-16bit-model", why::kCheckpoints},
      {"deepspeed-config.gradient-clipping", why::kNorm},
      {"megatron-lm-config.megatron-lm-gradient-clipping", why::kNorm},
  };
  return list;
}

const std::vector<Unread>& accelerate_unmodelled() {
  static const std::vector<Unread> list = {
      {"fsdp-config.fsdp-min-num-params", why::kUnit},
      {"fsdp-config.*", "FSDP as it is by default"},
      {"parallelism-config.*", "Accelerate's own options"},
      {"dynamo-config.*", "torch.compile as it is by default"},
      {"fp8-config.*", "workload.precision states the format"},
      {"mpirun-config.*", why::kProcesses},
  };
  return list;
}

namespace {

void finish_accelerate(Draft& d) {
  hybrid_sharding(d, d.find("parallelism-config.parallelism-config-dp-replicate-size"),
                  d.find("parallelism-config.parallelism-config-dp-shard-size"));
  const Setting* micro = d.first({"per-device-train-batch-size", "train-micro-batch-size-per-gpu"});
  const Setting* steps =
      d.first({"gradient-accumulation-steps", "deepspeed-config.gradient-accumulation-steps",
               "megatron-lm-config.megatron-lm-num-micro-batches"});
  const Setting* global = d.find("train-batch-size");
  // The arguments here replace "auto" in DeepSpeed's JSON.
  finish_trainer(d);
  complete_batch(d, micro, steps, global);
}

}  // namespace

const Reader& accelerate() {
  static const Reader reader = {
      "accelerate",
      "transformers",
      {&accelerate_rules(), &trainer_rules(), &common_rules(), &deepspeed_rules(),
       &launcher_rules()},
      {&accelerate_meaningless(), &trainer_meaningless(), &deepspeed_meaningless(),
       &launcher_options()},
      {&accelerate_unmodelled(), &trainer_unmodelled(), &deepspeed_unmodelled()},
      finish_accelerate,
      false,
      {"parallelism-config", "fsdp-config", "deepspeed-config", "megatron-lm-config"},
      false,
      {},
      {{"config-file", of_accelerate},
       deepspeed_file("deepspeed"),
       deepspeed_file("deepspeed-config.deepspeed-config-file")},
  };
  return reader;
}

}  // namespace stepcast::interop::launch
