// Axolotl's YAML (axolotl 0.19.0, utils/schemas/).
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
#include "../options/sizes.h"
#include "../options/why.h"
#include "../systems/deepspeed.h"
#include "liger.h"
#include "readers.h"
#include "trainer.h"

namespace stepcast::interop::launch {
namespace {

void axolotl_adapter(Draft& d, const Setting& s, std::string_view) {
  const std::string kind = plain_text(s.value);
  if (kind != "lora" && kind != "qlora") {
    d.refuse(s, fmt::format("{} is '{}'; forecast are lora | qlora, and all parameters without it",
                            s.shown, kind));
  }
}

// schemas/config.py:606: true, "offload" or "offload_disk".
void axolotl_checkpointing(Draft& d, const Setting& s, std::string_view key) {
  const std::string kind = plain_text(s.value);
  if (kind == "offload" || kind == "offload_disk") {
    d.set(s, key, "full");
    d.set(s, "memory.offload.activations", kind == "offload" ? "cpu" : "nvme");
  } else {
    full_recompute(d, s, key);
  }
}

void axolotl_attention(Draft& d, const Setting& s, std::string_view key) {
  const std::string kind = plain_text(s.value);
  if (kind == "flex_attention" || kind == "xformers" || kind == "sage") {
    attention_of_package(d, s, "flash2");
  } else {
    trainer_attention(d, s, key);
  }
}

void axolotl_compile(Draft& d, const Setting& s, std::string_view key) {
  d.set(s, key, is_true(s) || plain_text(s.value) == "auto");
}

// A list of words, as TrainingArguments' text has them.
void axolotl_fsdp(Draft& d, const Setting& s, std::string_view key) {
  Setting joined = s;
  if (s.value.kind == Value::Kind::sequence) {
    joined.value = scalar("", s.value.origin);
    for (const Value& item : s.value.items) {
      joined.value.scalar += plain_text(item) + " ";
    }
  }
  fsdp_words(d, joined, key);
}

// Liger's plugin does what its own options say; of the others none is modelled.
void axolotl_plugins(Draft& d, const Setting& s, std::string_view why) {
  const bool liger = s.value.kind == Value::Kind::sequence && !s.value.items.empty() &&
                     std::all_of(s.value.items.begin(), s.value.items.end(), [](const Value& one) {
                       return plain_text(one) == "axolotl.integrations.liger.LigerPlugin";
                     });
  if (liger) {
    d.meaningless(s, "its options follow");
  } else {
    d.unmodelled(s, why);
  }
}

const std::vector<Rule>& axolotl_rules() {
  static const std::vector<Rule> list = {
      {"base-model", "model", named_model},
      {"sequence-len", "workload.sequence_length"},
      {"micro-batch-size", "workload.micro_batch", later},
      {"gradient-accumulation-steps", "workload.global_batch", later},
      {"adapter", "workload.finetune", axolotl_adapter},
      {"load-in-4bit", "", later},
      {"load-in-8bit", "frozen weights are in 16 or in 4 bits", unmodelled_if_true},
      {"lora-r", "workload.finetune", later},
      {"lora-target-modules", "workload.finetune", later},
      {"lora-modules-to-save", "workload.finetune", later},
      {"lora-target-linear", "workload.finetune", later},
      {"bf16", "workload.precision", later},
      {"bfloat16", "workload.precision", later},
      {"fp16", "workload.precision", later},
      {"float16", "workload.precision", later},
      {"tf32", "workload.precision", later},
      {"fp8", "workload.precision=fp8 states it", unmodelled_if_true},
      {"gradient-checkpointing", "memory.recompute", axolotl_checkpointing},
      {"activation-offloading", "memory.offload.activations", offloaded_if_true},
      {"attn-implementation", "kernels.attention", axolotl_attention},
      {"flash-attention", "kernels.attention", flash_package_if_true},
      {"sdp-attention", "kernels.attention",
       later},  // the preset's, which PyTorch chooses by the device
      {"xformers-attention", "kernels.attention", flash_package_if_true},
      {"flex-attention", "kernels.attention", flash_package_if_true},
      {"eager-attention", "kernels.attention", if_true<"unfused">},
      {"optimizer", "memory.optimizer", optimizer_name},
      {"torch-compile", "kernels.compile", axolotl_compile},
      {"deepspeed", "", trainer_under_deepspeed},
      {"fsdp", "parallelism.sharding", axolotl_fsdp},
      {"fsdp-version", "", fsdp_version},
      {"fsdp-config.offload-params", "memory.offload", fsdp_offloaded_if_true},
      spelling("fsdp-config.fsdp-offload-params", "fsdp-config.offload-params"),
      {"fsdp-config.sharding-strategy", "parallelism.sharding", fsdp_strategy},
      spelling("fsdp-config.fsdp-sharding-strategy", "fsdp-config.sharding-strategy"),
      {"fsdp-config.fsdp-reshard-after-forward", "parallelism.reshard_after_forward"},
      {"fsdp-config.fsdp-activation-checkpointing", "memory.recompute", full_recompute},
      {"fsdp-config.fsdp-auto-wrap-policy", "", fsdp_wrapping},
      {"fsdp-config.fsdp-backward-prefetch", "", fsdp_backward_prefetch},
      {"fsdp-config.fsdp-forward-prefetch", "", fsdp_forward_prefetch},
      {"fsdp-config.fsdp-limit-all-gathers", "system.limit_all_gathers", yes},
      {"dp-shard-size", "parallelism.shard_size", later},
      {"dp-replicate-size", "parallelism.shard_size", later},
      {"tensor-parallel-size", "parallelism.tensor"},
      {"context-parallel-size", "parallelism.context.size"},
      spelling("sequence-parallel-degree", "context-parallel-size"),
      {"sample-packing", "workload.documents states what fills a sequence", unmodelled_if_true},
      {"batch-flattening", "workload.documents states what fills a sequence", unmodelled_if_true},
      {"layer-offloading", "frozen layers stay on the GPU", unmodelled_if_true},
      {"chunked-cross-entropy", "the loss is not in chunks", unmodelled_if_true},
      {"tiled-mlp", "the MLP is not in tiles", unmodelled_if_true},
      {"lora-mlp-kernel", "adapters as PEFT has them", unmodelled_if_true},
      {"lora-qkv-kernel", "adapters as PEFT has them", unmodelled_if_true},
      {"lora-o-kernel", "adapters as PEFT has them", unmodelled_if_true},
      {"peft-use-dora", "adapters have no magnitudes", unmodelled_if_true},
      {"relora", "adapters stay", unmodelled_if_true},
      {"plugins", "no plugin changes the step", axolotl_plugins},
      {"liger-rope", "kernels.liger", later},
      {"liger-rms-norm", "kernels.liger", later},
      {"liger-glu-activation", "kernels.liger", later},
      {"liger-swiglu", "kernels.liger", later},
      {"liger-layer-norm", why::kKernels, unmodelled_if_true},
      {"liger-fused-linear-cross-entropy", "kernels.liger", later},
      {"liger-cross-entropy", "kernels.liger", later},
      {"cut-cross-entropy", why::kKernels, unmodelled_if_true},
  };
  return list;
}

const std::vector<Unread>& axolotl_meaningless() {
  static const std::vector<Unread> list = {
      {"datasets*", why::kData},
      {"test-datasets*", why::kOther},
      {"chat-template*", why::kData},
      {"default-system-message", why::kData},
      {"eot-tokens", why::kData},
      {"special-tokens*", "the vocabulary stays the model's"},
      {"tokens", "the vocabulary stays the model's"},
      {"added-tokens-overrides*", "the vocabulary stays the model's"},
      {"resize-token-embeddings-to-32x", "the vocabulary stays the model's"},
      {"shuffle-merged-datasets", why::kData},
      {"shuffle-before-merging-datasets", why::kData},
      {"skip-prepare-dataset", why::kData},
      {"push-dataset-to-hub", why::kData},
      {"val-set-size", why::kOther},
      {"evals-per-epoch", why::kOther},
      {"saves-per-epoch", why::kOther},
      {"early-stopping-patience", why::kOther},
      {"auto-resume-from-checkpoints", why::kOther},
      {"num-epochs", why::kLength},
      {"train-on-inputs", why::kLearning},
      {"embedding-lr*", why::kLearning},
      {"cosine-*", why::kLearning},
      {"loss-watchdog-*", why::kOther},
      {"base-model-config", why::kOrigin},
      {"cls-model-config", why::kOrigin},
      {"model-type", why::kOrigin},
      {"type-of-model", why::kOrigin},
      {"revision-of-model", why::kOrigin},
      {"is-*-derived-model", why::kOrigin},
      {"tokenizer-*", why::kTokenizer},
      {"processor-*", why::kTokenizer},
      {"hf-use-auth-token", why::kOrigin},
      {"strict", why::kOther},
      {"lora-model-dir", why::kOrigin},
      {"lora-fan-in-fan-out", "the same product"},
      {"peft-use-rslora", why::kLearning},
      {"peft-init-lora-weights", "how adapters begin"},
      {"loraplus-*", why::kLearning},
      {"gc-steps", "memory housekeeping between steps"},
      {"gc-collect-steps", "memory housekeeping between steps"},
      {"sample-packing-*", why::kData},
      {"eval-sample-packing", why::kOther},
      {"eval-sequence-len", why::kOther},
      {"excess-length-strategy", why::kData},
      {"min-sample-len", why::kData},
      {"pad-to-sequence-len", "sequences are full"},
      {"pad-to-multiple-of", "sequences are full"},
      {"curriculum-sampling", why::kData},
      {"use-wandb", why::kLogging},
      {"use-mlflow", why::kLogging},
      {"mlflow-*", why::kLogging},
      {"use-comet", why::kLogging},
      {"comet-*", why::kLogging},
      {"use-tensorboard", why::kLogging},
      {"profiler-*", why::kLogging},
      {"include-*", why::kLogging},
      {"save-safetensors", why::kOther},
      {"fsdp-final-state-dict-type", why::kOther},
      {"fsdp-config.final-state-dict-type", why::kOther},
      {"fsdp-config.transformer-layer-cls-to-wrap", why::kUnit},
      {"fsdp-config.cpu-offload-pin-memory", "host memory is pinned"},
      {"fsdp-config.fsdp-transformer-layer-cls-to-wrap", why::kUnit},
      {"fsdp-config.fsdp-state-dict-type", why::kOther},
      {"fsdp-config.fsdp-final-state-dict-type", why::kOther},
      {"fsdp-config.fsdp-cpu-ram-efficient-loading", why::kOrigin},
      {"fsdp-config.fsdp-sync-module-states", why::kOrigin},
      {"fsdp-config.fsdp-use-orig-params", why::kViews},
      {"heads-k-stride", why::kSame},
      {"ring-attn-func", why::kSame},
      {"use-ray", why::kProcesses},
      {"ray-*", why::kProcesses},
      {"world-size", why::kProcesses},
      {"ddp", why::kProcesses},
      {"device*", why::kProcesses},
      {"max-memory*", why::kOrigin},
      {"gpu-memory-limit", why::kOrigin},
  };
  return list;
}

const std::vector<Unread>& axolotl_unmodelled() {
  static const std::vector<Unread> list = {
      {"rl", why::kOneModel},
      {"trl*", why::kOneModel},
      {"reward-model", why::kOneModel},
      {"lora-target-parameters", "adapters are those of lora_target_modules"},
      {"lora-rank-pattern*", "all adapters have one rank"},
      {"peft-layers-to-transform", "adapters are in every layer"},
      {"selective-checkpointing*", "memory.recompute states what is recomputed"},
      {"tiled-mlp-*", "the MLP is not in tiles"},
      {"chunked-cross-entropy-*", "the loss is not in chunks"},
      {"fp8-*", "workload.precision=fp8 states it"},
      {"overrides-of-model*", "the model is as its name says"},
      {"fsdp-config.mixed-precision-policy", "workload.precision states it"},
      {"unfrozen-parameters", "all parameters, or adapters, are trained"},
      {"use-kernels", why::kKernels},
      {"use-scattermoe", why::kKernels},
      {"use-sonicmoe", why::kKernels},
      {"liger-*", why::kKernels},
      {"qat.*", "no weight is quantised while it is trained"},
      {"ebft.*", why::kOneModel},
      {"experts-implementation", "experts as the system has them"},
      {"quantize-moe-experts", "experts are in 16 bits"},
      {"fp32-norms", "norms are in the precision of the layer"},
      {"torch-compile-options*", "torch.compile as it is by default"},
  };
  return list;
}

// schemas/config.py:561: bf16 is "auto" where nothing else is asked for.
void axolotl_precision(Draft& d) {
  for (const auto& [names, format] :
       {std::pair<std::vector<std::string_view>, const char*>{{"fp16", "float16"}, "fp16"},
        {{"bf16", "bfloat16"}, "bf16"}}) {
    for (const std::string_view name : names) {
      const Setting* s = d.find(name);
      const std::string word = d.word(name);
      if (s != nullptr && (is_true(*s) || word == "auto" || word == "full")) {
        d.set(*s, "workload.precision", format);
      }
    }
  }
  const Setting* off = d.find("bf16");
  d.assume(d.defaults(), "workload.precision",
           scalar(off == nullptr                         ? "bf16"
                  : d.word("tf32") != "" && d.on("tf32") ? "tf32"
                                                         : "fp32",
                  d.defaults()));
}

// schemas/training.py:71 and :77: one sequence, and one step.
void axolotl_batch(Draft& d) {
  const Setting* micro = d.find("micro-batch-size");
  const Setting* steps = d.find("gradient-accumulation-steps");
  if (micro != nullptr) {
    complete_batch(d, micro, steps, nullptr);
    return;
  }
  d.assume(d.defaults(), "workload.micro_batch", scalar("1", d.defaults()));
  const std::int64_t ranks = d.data_ranks();
  const auto accumulated = steps == nullptr ? std::int64_t{1} : d.integer(steps->name).value_or(1);
  if (ranks > 0) {
    d.assume(d.defaults(), "workload.global_batch",
             scalar(fmt::format("{}", product(ranks, accumulated)), d.defaults()));
  }
}

void axolotl_sharding(Draft& d) {
  const Setting* replicas = d.find("dp-replicate-size");
  const Setting* shards = d.find("dp-shard-size");
  for (const Setting& s : d.settings()) {
    const bool asks = s.name.starts_with("fsdp-config.") || s.name == "fsdp-version";
    if (asks && !d.stated("parallelism.sharding")) {
      d.set(s, "parallelism.sharding", "zero3");
    }
  }
  hybrid_sharding(d, replicas, shards);
  tidy_context(d);
}

// utils/config/__init__.py:199 and loaders/model.py:700: weights are loaded in bf16 where bf16
// trains, and in fp16 where fp16 does. They and what is made of them stay so without FSDP or
// DeepSpeed, which widen what is trained; the frozen base of adapters stays so under FSDP too
// (loaders/model.py:485 casts back what was widened for adapters).
void axolotl_formats(Draft& d) {
  const std::string precision = d.text("workload.precision");
  const bool adapters = d.stated("workload.finetune");
  const bool stays = precision == "bf16" || (adapters && precision == "fp16");
  if (!d.preset.starts_with("transformers")) {
    return;
  }
  if (stays && (adapters || d.text("parallelism.sharding") != "zero3")) {
    loaded_weights(d, nullptr, precision);
  } else if (!adapters) {
    d.assume(d.defaults(), "memory.dtypes.parameters", scalar("fp32", d.defaults()));
  }
}

void axolotl_adapters(Draft& d, const Setting& adapter) {
  Adapters adapters;
  adapters.asked = &adapter;
  adapters.quantised = plain_text(adapter.value) == "qlora" ? &adapter : nullptr;
  adapters.rank = d.find("lora-r");
  adapters.targets = d.find("lora-target-modules");
  adapters.saved = d.find("lora-modules-to-save");
  adapters.usual_rank = "8";  // peft 0.21.2, tuners/lora/config.py: LoraConfig.r
  if (const Setting* linear = d.find("lora-target-linear");
      adapters.targets == nullptr && linear != nullptr && is_true(*linear)) {
    adapters.usual_targets = "all";
  }
  set_adapters(d, adapters);
}

void finish_axolotl(Draft& d) {
  axolotl_precision(d);
  // schemas/config.py:671.
  d.assume(d.defaults(), "workload.sequence_length", scalar("512", d.defaults()));
  axolotl_sharding(d);
  axolotl_batch(d);
  if (const Setting* adapter = d.find("adapter")) {
    axolotl_adapters(d, *adapter);
  }
  axolotl_formats(d);
  axolotl_liger(d);
}

}  // namespace

const Reader& axolotl() {
  static const Reader reader = {
      "axolotl",
      "transformers",
      {&axolotl_rules(), &trainer_rules(), &common_rules(), &deepspeed_rules(), &launcher_rules()},
      {&axolotl_meaningless(), &trainer_meaningless(), &deepspeed_meaningless(),
       &launcher_options()},
      {&axolotl_unmodelled(), &trainer_unmodelled(), &deepspeed_unmodelled()},
      finish_axolotl,
      false,
      {},
      false,
      {},
      {deepspeed_file("deepspeed")},
  };
  return reader;
}

}  // namespace stepcast::interop::launch
