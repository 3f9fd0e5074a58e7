// HuggingFace's TrainingArguments: JSON, YAML or a command line.
#include <fmt/format.h>

#include <algorithm>

#include "../options/adapters.h"
#include "../options/batch.h"
#include "../options/fsdp.h"
#include "../options/launchers.h"
#include "../options/models.h"
#include "../options/offload.h"
#include "../options/optimizers.h"
#include "../options/parallelism.h"
#include "../options/rule.h"
#include "../options/why.h"
#include "../systems/deepspeed.h"
#include "liger.h"
#include "readers.h"
#include "stepcast/config/config.h"
#include "trainer.h"

namespace stepcast::interop::launch {

// --fsdp "full_shard auto_wrap offload".
void fsdp_words(Draft& d, const Setting& s, std::string_view) {
  const std::string words = " " + plain_text(s.value) + " ";
  const auto has = [&](const char* word) {
    return words.find(fmt::format(" {} ", word)) != std::string::npos;
  };
  for (const char* kind :
       {"full_shard", "shard_grad_op", "hybrid_shard_zero2", "hybrid_shard", "no_shard"}) {
    if (has(kind)) {
      fsdp_strategy_word(d, s, kind);
      break;
    }
  }
  if (has("offload")) {
    offload_fsdp(d, s);
  }
}

void attention_of_package(Draft& d, const Setting& s, std::string_view kernel) {
  d.set(s, "kernels.attention", kernel);
  d.set(s, "system.scaled_dot_product", false);
}

void flash_package_if_true(Draft& d, const Setting& s, std::string_view) {
  if (is_true(s)) {
    attention_of_package(d, s, "flash2");
  }
}

void trainer_attention(Draft& d, const Setting& s, std::string_view key) {
  const std::string kind = plain_text(s.value);
  if (kind == "sdpa") {
    return;  // the preset's kernel, which PyTorch chooses by the device
  }
  if (kind == "flash_attention_2") {
    attention_of_package(d, s, "flash2");
  } else if (kind == "flash_attention_3") {
    attention_of_package(d, s, "flash3");
  } else if (kind == "eager") {
    d.set(s, key, "unfused");
  } else {
    d.refuse(
        s, fmt::format("{} is '{}'; expected flash_attention_2 | flash_attention_3 | sdpa | eager",
                       s.shown, kind));
  }
}

void trainer_under_deepspeed(Draft& d, const Setting& s, std::string_view) {
  d.preset = "deepspeed";
  d.meaningless(s, "its file is read as well");
}

namespace {

void peft(Draft& d) {
  const Setting* on = d.find("use-peft");
  if (on != nullptr ? is_true(*on) : d.find("lora-r") != nullptr) {
    peft_adapters(d);
  }
}

}  // namespace

void peft_adapters(Draft& d) {
  const Setting* quantised = nullptr;
  for (const char* name : {"load-in-8bit", "load-in-4bit"}) {
    quantised = d.on(name) ? d.present(name) : quantised;
  }
  set_adapters(d, {.asked = d.find("use-peft"),
                   .quantised = quantised,
                   .rank = d.find("lora-r"),
                   .targets = d.find("lora-target-modules"),
                   .saved = d.find("lora-modules-to-save")});
}

namespace {

// A stated size is the first bucket's too since torch 2.4 (2.4.1 nn/parallel/distributed.py:1174;
// in 2.3.1, :1130, the first has 1 MiB all the same).
void stated_buckets(Draft& d, const Setting& s, std::string_view key) {
  mebibytes(d, s, key);
  d.set(s, "system.first_bucket_bytes", "0 MiB");
}

bool trains_adapters(const Draft& d) {
  return d.stated("workload.finetune") || d.overridden("workload.finetune");
}

// The format of the published weights of the job's model.
std::string_view checkpoint_format(const Draft& d) {
  const auto stated = [&](const char* key) { return d.text(key); };
  std::string name = stated("model.use");
  name = name.empty() ? stated("model") : name;
  name = name.empty() ? d.request().model : name;
  try {
    return to_string(config::model(name).checkpoint);
  } catch (const InputError&) {
    return to_string(job::Model().checkpoint);  // a fault of the model, which is told elsewhere
  }
}

// Without mixed precision products are computed in the format in which weights are loaded, by
// default that of the checkpoint (transformers 5.0.0, modeling_utils.py:3935).
void unmixed_weights(Draft& d) {
  const std::string precision = d.text("workload.precision");
  const std::string_view format = checkpoint_format(d);
  if ((precision != "fp32" && precision != "tf32") || format == "fp32" ||
      !d.preset.starts_with("transformers") || d.overridden("system.use") ||
      d.overridden("workload.precision")) {
    return;
  }
  d.drop("memory.dtypes.reduce");
  loaded_weights(d, nullptr, format);
  d.drop("workload.precision");
  d.assume(d.defaults(), "workload.precision", scalar(format, d.defaults()));
}

}  // namespace

// The format that from_pretrained loads weights in, which Trainer keeps: autocast, by bf16 and
// fp16, casts inside products alone (transformers 5.24, modeling_utils.py:4155; 4.57.1 :4628).
// "auto" is the checkpoint's, and the default but for TRL, whose own is fp32 (1.16.0,
// trainer/utils.py:1332).
void trainer_weights(Draft& d) {
  const Setting* s = d.find("dtype");
  if (s == nullptr) {
    unmixed_weights(d);
    return;
  }
  const std::string named = plain_text(s->value);
  const std::string name = named.substr(named.rfind('.') + 1);  // "torch.bfloat16"
  const std::string_view stored = checkpoint_format(d);
  const std::string_view format = name == "auto"                         ? stored
                                  : name == "bfloat16" || name == "bf16" ? "bf16"
                                  : name == "float16" || name == "fp16"  ? "fp16"
                                  : name == "float32" || name == "fp32"  ? "fp32"
                                                                         : "";
  const std::string precision = d.text("workload.precision");
  const bool mixed = precision != "fp32" && precision != "tf32";
  if (format.empty()) {
    d.refuse(*s, fmt::format("{} is '{}'; expected auto | bfloat16 | float16 | float32", s->shown,
                             named));
  } else if (!d.preset.starts_with("transformers") && !d.preset.starts_with("trl")) {
    d.meaningless(*s, "the system has formats of its own");
  } else if (mixed && d.text("parallelism.sharding") == "zero3" && !trains_adapters(d)) {
    // accelerate 1.15.0, accelerator.py:2037 and utils/fsdp_utils.py:820.
    d.meaningless(*s, "beside mixed precision FSDP widens what is trained to fp32");
  } else {
    loaded_weights(d, s, format);
    if (!mixed && format != "fp32") {
      d.set(*s, "workload.precision", format);  // nothing else says what products are computed in
    }
  }
}

void loaded_weights(Draft& d, const Setting* from, std::string_view format) {
  const bool adapters = trains_adapters(d);
  for (const char* key : {"parameters", "gradients", "reduce", "moments"}) {
    if (adapters && key != std::string_view("parameters")) {
      return;  // PEFT 0.21.2, tuners/tuners_utils.py:2705: cast_adapter_dtype
    }
    const std::string whole = fmt::format("memory.dtypes.{}", key);
    if (from != nullptr) {
      d.set(*from, whole, format);
    } else {
      d.assume(d.defaults(), whole, scalar(format, d.defaults()));
    }
  }
}

const std::vector<Rule>& trainer_rules() {
  static const std::vector<Rule> rules = {
      {"model-name-or-path", "model", named_model},
      spelling("model-name", "model-name-or-path"),
      {"max-seq-length", "workload.sequence_length"},
      {"max-seq-len", "workload.sequence_length"},
      {"model-max-length", "workload.sequence_length"},
      {"max-length", "workload.sequence_length"},
      {"block-size", "workload.sequence_length"},
      {"cutoff-len", "workload.sequence_length"},
      {"per-device-train-batch-size", "workload.micro_batch", later},
      spelling("per-gpu-train-batch-size", "per-device-train-batch-size"),
      {"gradient-accumulation-steps", "workload.global_batch", later},
      flag("bf16"),
      flag("fp16"),
      flag("tf32"),
      flag("gradient-checkpointing", "memory.recompute", full_recompute),
      flag("activation-checkpointing", "memory.recompute", full_recompute),
      {"use-liger-kernel", "kernels.liger", later},
      {"liger-kernel-config.rope", "kernels.liger", later},
      {"liger-kernel-config.rms-norm", "kernels.liger", later},
      {"liger-kernel-config.swiglu", "kernels.liger", later},
      {"liger-kernel-config.geglu", "kernels.liger", later},
      {"liger-kernel-config.cross-entropy", "kernels.liger", later},
      {"liger-kernel-config.fused-linear-cross-entropy", "kernels.liger", later},
      {"gradient-checkpointing-kwargs.every-n-layers", "memory.recompute", later},
      {"activation-checkpointing-kwargs.every-n-layers", "memory.recompute", later},
      {"gradient-checkpointing-kwargs.offload", "memory.offload.activations", later},
      {"activation-checkpointing-kwargs.offload", "memory.offload.activations", later},
      {"ddp-bucket-cap-mb", "system.bucket_bytes", stated_buckets},
      {"fsdp", "parallelism.sharding", fsdp_words},
      {"fsdp-config.version", "", fsdp_version},
      spelling("fsdp-config.fsdp-version", "fsdp-config.version"),
      {"fsdp-config.backward-prefetch", "", fsdp_backward_prefetch},
      {"fsdp-config.forward-prefetch", "", fsdp_forward_prefetch},
      {"fsdp-config.limit-all-gathers", "system.limit_all_gathers", yes},
      {"fsdp-config.activation-checkpointing", "memory.recompute", full_recompute},
      {"fsdp-config.reshard-after-forward", "parallelism.reshard_after_forward"},
      {"fsdp-config.auto-wrap-policy", "", fsdp_wrapping},
      {"deepspeed", "", trainer_under_deepspeed},
      {"optim", "memory.optimizer", optimizer_name},
      flag("torch-compile", "kernels.compile", yes),
      {"attn-implementation", "kernels.attention", trainer_attention},
      {"dtype", "memory.dtypes.parameters", later},
      spelling("torch-dtype", "dtype"),  // its name until 4.56
      flag("use-flash-attn", "kernels.attention", flash_package_if_true),
      flag("use-peft"),
      {"lora-r", "workload.finetune", later},
      spelling("lora-rank", "lora-r"),
      {"lora-target-modules", "workload.finetune", later},
      spelling("lora-target", "lora-target-modules"),
      {"lora-modules-to-save", "workload.finetune", later},
      spelling("modules-to-save", "lora-modules-to-save"),
      flag("load-in-4bit"),
      flag("load-in-8bit"),
      {"parallelism-config.dp-replicate-size", "parallelism.shard_size", later},
      {"parallelism-config.dp-shard-size", "parallelism.shard_size", later},
      {"parallelism-config.tp-size", "parallelism.tensor"},
      {"parallelism-config.cp-size", "parallelism.context.size"},
      {"parallelism-config.sp-size", "parallelism.context.size", ulysses},
  };
  return rules;
}

const std::vector<Unread>& trainer_meaningless() {
  static const std::vector<Unread> list = {
      {"output-dir", why::kResults},
      {"overwrite-output-dir", why::kResults},
      {"run-name", why::kLogging},
      {"report-to", why::kLogging},
      {"logging*", why::kLogging},
      {"log-*", why::kLogging},
      {"log-level*", why::kLogging},
      {"disable-tqdm", why::kLogging},
      {"wandb-*", why::kLogging},
      {"project", why::kLogging},
      {"push-to-hub", why::kLogging},
      {"hub-*", why::kLogging},
      {"do-*", why::kEvaluation},
      {"eval-*", why::kEvaluation},
      {"evaluation-*", why::kEvaluation},
      {"prediction-loss-only", why::kEvaluation},
      {"per-device-eval-batch-size", why::kEvaluation},
      {"predict-with-generate", why::kEvaluation},
      {"include-*", why::kEvaluation},
      {"metric-for-best-model", why::kEvaluation},
      {"greater-is-better", why::kEvaluation},
      {"batch-eval-metrics", why::kEvaluation},
      {"learning-rate", why::kLearning},
      {"min-learning-rate", why::kLearning},
      {"lr-*", why::kLearning},
      {"warmup-*", why::kLearning},
      {"weight-decay", why::kLearning},
      {"adam-*", why::kLearning},
      {"adam-beta*", why::kLearning},
      {"max-grad-norm", why::kNorm},
      {"label-smoothing-factor", why::kLearning},
      {"label-names", why::kLearning},
      {"seed", why::kLearning},
      {"data-seed", why::kLearning},
      {"full-determinism", why::kLearning},
      {"lora-alpha", why::kLearning},
      {"lora-dropout", why::kLearning},
      {"lora-bias", why::kLearning},
      {"optim-args", why::kLearning},
      {"neftune-noise-alpha", why::kLearning},
      {"num-train-epochs", why::kLength},
      {"max-steps", why::kLength},
      {"max-train-steps", why::kLength},
      {"save-*", why::kCheckpoints},
      {"load-best-model-at-end", why::kCheckpoints},
      {"resume-from-checkpoint", why::kCheckpoints},
      {"ignore-data-skip", why::kCheckpoints},
      {"restore-callback-states-from-checkpoint", why::kCheckpoints},
      {"dataset*", why::kData},
      {"train-file", why::kData},
      {"validation-file", why::kData},
      {"validation-split-percentage", why::kData},
      {"data-path", why::kData},
      {"data-dir", why::kData},
      {"dataloader-*", why::kData},
      {"group-by-length", why::kData},
      {"length-column-name", why::kData},
      {"remove-unused-columns", why::kData},
      {"preprocessing-num-workers", why::kData},
      {"streaming", why::kData},
      {"max-train-samples", why::kData},
      {"max-eval-samples", why::kData},
      {"overwrite-cache", why::kData},
      {"cache-dir", why::kData},
      {"tokenizer-name*", why::kTokenizer},
      {"config-name", why::kOrigin},
      {"use-fast-tokenizer", why::kTokenizer},
      {"token", why::kOrigin},
      {"trust-remote-code", why::kOrigin},
      {"model-revision", why::kOrigin},
      {"use-auth-token", why::kOrigin},
      {"low-cpu-mem-usage", why::kLoading},
      {"use-cpu", why::kProcesses},
      {"no-cuda", why::kProcesses},
      {"local-rank", why::kProcesses},
      {"ddp-backend", why::kProcesses},
      {"ddp-timeout", why::kProcesses},
      {"ddp-find-unused-parameters", "a bitmap of a few bytes"},
      {"ddp-broadcast-buffers", "models here have no buffers"},
      {"fp16-*", why::kNumerics},
      {"half-precision-backend", why::kNumerics},
      {"bf16-full-eval", why::kEvaluation},
      {"gradient-checkpointing-kwargs*", why::kSame},
      {"activation-checkpointing-kwargs*", why::kSame},
      {"use-cache", why::kEvaluation},
      {"fsdp-config.use-orig-params", why::kViews},
      {"fsdp-config.sync-module-states", why::kLoading},
      {"fsdp-config.cpu-ram-efficient-loading", why::kLoading},
      {"fsdp-config.state-dict-type", why::kCheckpoints},
      {"fsdp-config.transformer-layer-cls-to-wrap", why::kUnit},
      {"fsdp-transformer-layer-cls-to-wrap", why::kUnit},
      {"parallelism-config.*-backend", why::kSame},
      {"skip-memory-metrics", why::kLogging},
      {"torch-empty-cache-steps", "memory housekeeping between steps"},
      {"auto-find-batch-size", "the batch is stated"},
      {"accelerator-config*", why::kData},
      {"debug", why::kLogging},
  };
  return list;
}

const std::vector<Unread>& trainer_unmodelled() {
  static const std::vector<Unread> list = {
      {"fsdp-config.min-num-params", why::kUnit},
      {"fsdp-min-num-params", why::kUnit},
      {"fsdp-config.xla*", "XLA's sharding"},
      {"torch-compile-backend", "torch.compile as it is by default"},
      {"torch-compile-mode", "torch.compile as it is by default"},
      {"liger-kernel-config*", why::kKernels},
      {"average-tokens-across-devices", "one number is reduced"},
      {"packing", "workload.documents states what fills a sequence"},
      {"padding-free", "workload.documents states what fills a sequence"},
      {"parallelism-config.*", "Accelerate's own options"},
      {"fsdp-config.*", "FSDP as it is by default"},
  };
  return list;
}

// transformers 5.24, trainer.py:1503: which layers recompute, and where what they keep lies. The
// old name counts where the new one is not set (training_args.py:1533).
void trainer_checkpointing(Draft& d) {
  const Setting* flag = d.first({"activation-checkpointing", "gradient-checkpointing"});
  const bool on = flag != nullptr && is_true(*flag);
  if (flag != nullptr && !on && flag->name == "activation-checkpointing") {
    d.set(*flag, "memory.recompute", "none");
  }
  for (const char* name : {"activation-checkpointing-kwargs", "gradient-checkpointing-kwargs"}) {
    if (const Setting* s = d.find(fmt::format("{}.every-n-layers", name)); s != nullptr) {
      const std::string n = plain_text(s->value);
      if (on && n != "1") {
        d.drop("memory.recompute");
        d.set(*s, "memory.recompute.every", s->value);
      } else {
        d.meaningless(*s, on ? "every layer" : "nothing is recomputed");
      }
    }
    if (const Setting* s = d.find(fmt::format("{}.offload", name)); s != nullptr) {
      if (on && is_true(*s)) {
        d.set(*s, "memory.offload.activations", "cpu");
      } else {
        d.meaningless(*s, "nothing is offloaded");
      }
    }
  }
}

void finish_trainer_sizes(Draft& d) {
  trainer_checkpointing(d);
  const auto either = [&](const char* flag, const char* key) {
    const Setting* s = d.present(flag);
    return s != nullptr ? s : d.find(key);
  };
  const Setting* bf16 = either("bf16", "bf16.enabled");
  const Setting* fp16 = either("fp16", "fp16.enabled");
  if (bf16 != nullptr && is_true(*bf16)) {
    d.set(*bf16, "workload.precision", "bf16");
  } else if (fp16 != nullptr && is_true(*fp16)) {
    d.set(*fp16, "workload.precision", "fp16");
  } else if (!d.stated("workload.precision")) {
    const bool tf32 = d.on("tf32");
    d.assume(d.defaults(), "workload.precision", scalar(tf32 ? "tf32" : "fp32", d.defaults()));
  }
  hybrid_sharding(d, d.find("parallelism-config.dp-replicate-size"),
                  d.find("parallelism-config.dp-shard-size"));
  tidy_context(d);
  trainer_liger(d);
  const Setting* micro = d.find("per-device-train-batch-size");
  complete_batch(d, micro, d.find("gradient-accumulation-steps"), nullptr);
}

void finish_trainer(Draft& d) {
  finish_trainer_sizes(d);
  peft(d);
  trainer_weights(d);
}

const Reader& transformers() {
  static const Reader reader = {
      "transformers",
      "transformers",
      {&trainer_rules(), &common_rules(), &deepspeed_rules(), &launcher_rules()},
      {&trainer_meaningless(), &deepspeed_meaningless(), &launcher_options()},
      {&trainer_unmodelled(), &deepspeed_unmodelled()},
      finish_trainer,
      false,
      {},
      false,
      {},
      {deepspeed_file("deepspeed")},
  };
  return reader;
}

}  // namespace stepcast::interop::launch
