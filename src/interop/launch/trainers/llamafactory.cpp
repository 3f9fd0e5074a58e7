// LLaMA-Factory's YAML or command line: its own arguments beside TrainingArguments (llamafactory
// 0.9.5, hparams/).
#include <fmt/format.h>

#include "../options/adapters.h"
#include "../options/launchers.h"
#include "../options/models.h"
#include "../options/rule.h"
#include "../options/why.h"
#include "../systems/deepspeed.h"
#include "liger.h"
#include "readers.h"
#include "trainer.h"

namespace stepcast::interop::launch {
namespace {

// extras/constants.py:130: AttentionFunction; "auto" leaves it to Transformers, which takes sdpa
// (model/model_utils/attention.py:65).
void llamafactory_attention(Draft& d, const Setting& s, std::string_view key) {
  const std::string kind = plain_text(s.value);
  if (kind == "auto" || kind == "sdpa") {
    return;  // the preset's kernel, which PyTorch chooses by the device
  }
  if (kind == "fa2") {
    attention_of_package(d, s, "flash2");
  } else if (kind == "fa3") {
    attention_of_package(d, s, "flash3");
  } else if (kind == "disabled") {
    d.set(s, key, "unfused");
  } else {
    d.refuse(s,
             fmt::format("{} is '{}'; expected auto | disabled | sdpa | fa2 | fa3", s.shown, kind));
  }
}

void llamafactory_method(Draft& d, const Setting& s, std::string_view) {
  const std::string method = plain_text(s.value);
  if (method != "lora" && method != "full") {
    d.refuse(s, fmt::format("{} is '{}'; forecast are lora | full", s.shown, method));
  }
}

void llamafactory_stage(Draft& d, const Setting& s, std::string_view) {
  const std::string stage = plain_text(s.value);
  if (stage == "sft" || stage == "pt") {
    d.meaningless(s, "which data are read");
  } else {
    d.unmodelled(s, "one model is trained, and no other runs beside it");
  }
}

void llamafactory_bits(Draft& d, const Setting& s, std::string_view) {
  if (plain_text(s.value) != "4") {
    d.unmodelled(s, "frozen weights are in 16 or in 4 bits");
  }
}

// Weights are loaded in the checkpoint's format (model/loader.py:155: torch_dtype "auto"), 16 bits
// of the models here; what is trained is then widened to fp32 (model/adapter.py:314), but not with
// pure_bf16 (hparams/finetuning_args.py:456), which trains without mixed precision. Under DeepSpeed
// they have its formats.
void llamafactory_formats(Draft& d) {
  const Setting* pure = d.find("pure-bf16");
  const bool adapters = d.stated("workload.finetune");
  if (pure != nullptr && is_true(*pure)) {
    if (d.preset == "deepspeed" && d.text("parallelism.sharding") == "zero3") {
      d.refuse(*pure, fmt::format("{} is refused by LLaMA-Factory beside DeepSpeed's ZeRO-3; "
                                  "expected false",  // hparams/parser.py:385
                                  pure->shown));
    }
    loaded_weights(d, pure, "bf16");
    d.set(*pure, "workload.precision", "bf16");
    return;
  }
  if (pure != nullptr) {
    d.meaningless(*pure, "off");
  }
  if (!d.preset.starts_with("transformers")) {
    return;
  }
  if (!adapters) {
    d.assume(d.defaults(), "memory.dtypes.parameters", scalar("fp32", d.defaults()));
    return;
  }
  loaded_weights(d, nullptr, "bf16");
  if (const std::string precision = d.text("workload.precision");
      precision == "fp32" || precision == "tf32") {
    d.drop("workload.precision");  // without autocast products are in the base's format
    d.assume(d.defaults(), "workload.precision", scalar("bf16", d.defaults()));
  }
}

const std::vector<Rule>& llamafactory_rules() {
  static const std::vector<Rule> list = {
      {"flash-attn", "kernels.attention", llamafactory_attention},
      {"finetuning-type", "", llamafactory_method},
      {"stage", "", llamafactory_stage},
      {"quantization-bit", "", llamafactory_bits},
      {"double-quantization", "", later},
      {"additional-target", "workload.finetune", later},
      {"pure-bf16", "memory.dtypes.parameters", later},
      {"disable-gradient-checkpointing", "memory.recompute", later},
      {"packing", "workload.documents states what fills a sequence", unmodelled_if_true},
      {"neat-packing", "workload.documents states what fills a sequence", unmodelled_if_true},
      {"enable-liger-kernel", "kernels.liger", liger_if_true},
      {"use-unsloth", why::kKernels, unmodelled_if_true},
      {"use-unsloth-gc", "recomputation as PyTorch has it", unmodelled_if_true},
      {"shift-attn", "attention is whole", unmodelled_if_true},
      {"use-dora", "adapters have no magnitudes", unmodelled_if_true},
      {"use-galore", "AdamW keeps whole states", unmodelled_if_true},
      {"use-apollo", "AdamW keeps whole states", unmodelled_if_true},
      {"use-badam", "AdamW keeps whole states", unmodelled_if_true},
      {"use-adam-mini", "AdamW keeps whole states", unmodelled_if_true},
      {"use-llama-pro", "no block is added", unmodelled_if_true},
      {"upcast-layernorm", "norms are in the precision of the layer", unmodelled_if_true},
      {"fp8", "workload.precision=fp8 states it", unmodelled_if_true},
      {"use-muon", "memory.optimizer", if_true<"muon">},
      {"use-v1-kernels", why::kKernels, unmodelled_if_true},
      {"use-asft-loss", why::kOneModel, unmodelled_if_true},
      {"use-eaft-loss", "the loss as the system has it", unmodelled_if_true},
      {"use-mca", "Megatron-Core runs the step", unmodelled_if_true},
      {"use-kt", "no expert runs on the CPU", unmodelled_if_true},
  };
  return list;
}

const std::vector<Unread>& llamafactory_meaningless() {
  static const std::vector<Unread> list = {
      {"template", why::kData},
      {"eval-dataset", why::kOther},
      {"media-dir", why::kData},
      {"train-on-prompt", why::kLearning},
      {"mask-history", why::kLearning},
      {"buffer-size", why::kData},
      {"mix-strategy", why::kData},
      {"interleave-probs", why::kData},
      {"preprocessing-batch-size", why::kData},
      {"max-samples", why::kData},
      {"ignore-pad-token-for-loss", why::kLearning},
      {"val-size", why::kOther},
      {"tool-format", why::kData},
      {"default-system", why::kData},
      {"enable-thinking", why::kData},
      {"preserve-thinking", why::kData},
      {"tokenized-path", why::kData},
      {"data-shared-file-system", why::kData},
      {"image-*", why::kData},
      {"video-*", why::kData},
      {"audio-*", why::kData},
      {"plot-loss", why::kOther},
      {"compute-accuracy", why::kOther},
      {"disable-shuffling", why::kData},
      {"early-stopping-steps", why::kOther},
      {"export-*", why::kOther},
      {"infer-*", why::kOther},
      {"vllm-*", why::kOther},
      {"sglang-*", why::kOther},
      {"use-kv-cache", why::kOther},
      {"ray-*", why::kProcesses},
      {"master-*", why::kProcesses},
      {"use-swanlab", why::kLogging},
      {"swanlab-*", why::kLogging},
      {"enable-torch-profiler", why::kLogging},
      {"profiler-*", why::kLogging},
      {"print-param-status", why::kLogging},
      {"adapter-name-or-path", why::kOrigin},
      {"adapter-folder", why::kOrigin},
      {"hf-hub-token", why::kOrigin},
      {"ms-hub-token", why::kOrigin},
      {"om-hub-token", why::kOrigin},
      {"train-from-scratch", why::kOrigin},
      {"offload-folder", why::kOrigin},
      {"device-map", why::kOrigin},
      {"resize-vocab", "the vocabulary stays the model's"},
      {"split-special-tokens", why::kData},
      {"add-tokens", "the vocabulary stays the model's"},
      {"add-special-tokens", "the vocabulary stays the model's"},
      {"rope-scaling", "positions of the same cost"},
      {"moe-aux-loss-coef", why::kLearning},
      {"use-reentrant-gc", why::kSame},
      {"quantization-method", "4 bits are bitsandbytes' NF4"},
      {"quantization-type", "4 bits are bitsandbytes' NF4"},
      {"quantization-device-map", why::kOrigin},
      {"loraplus-*", why::kLearning},
      {"use-rslora", why::kLearning},
      {"pissa-*", "how adapters begin"},
      {"create-new-adapter", why::kOrigin},
      {"pref-*", why::kLearning},
      {"use-dft-loss", why::kLearning},
      {"asft-alpha", why::kLearning},
      {"eaft-alpha", why::kLearning},
      {"include-effective-tokens-per-second", why::kLogging},
  };
  return list;
}

const std::vector<Unread>& llamafactory_unmodelled() {
  static const std::vector<Unread> list = {
      {"freeze-*", "all parameters, or adapters, are trained"},
      {"mixture-of-depths", "every layer sees every token"},
      {"upcast-lmhead-output", "the loss as the system has it"},
      {"galore-*", "AdamW keeps whole states"},
      {"apollo-*", "AdamW keeps whole states"},
      {"badam-*", "AdamW keeps whole states"},
      {"fp8-*", "workload.precision=fp8 states it"},
      {"ref-model*", why::kOneModel},
      {"reward-model*", why::kOneModel},
      {"ppo-*", why::kOneModel},
  };
  return list;
}

void llamafactory_adapters(Draft& d) {
  const Setting* bits = d.present("quantization-bit");
  Adapters adapters;
  adapters.asked = d.find("finetuning-type");
  adapters.quantised = bits != nullptr && plain_text(bits->value) == "4" ? bits : nullptr;
  adapters.rank = d.find("lora-r");
  adapters.targets = d.find("lora-target-modules");
  adapters.saved = d.find("additional-target");
  adapters.usual_rank = "8";
  adapters.usual_targets = "all";
  set_adapters(d, adapters);
  if (const Setting* twice = d.present("double-quantization");
      twice != nullptr && adapters.quantised != nullptr) {
    d.set(*twice, "workload.finetune.qlora.double_quantized", is_true(*twice));
  }
}

void finish_llamafactory(Draft& d) {
  finish_trainer_sizes(d);
  // hparams/data_args.py:46, model_args.py:145, finetuning_args.py:77, :81 and :464: the defaults.
  d.assume(d.defaults(), "workload.sequence_length", scalar("2048", d.defaults()));
  if (const Setting* off = d.present("disable-gradient-checkpointing");
      off != nullptr && is_true(*off)) {
    d.set(*off, "memory.recompute", "none");
  } else {
    d.assume(d.defaults(), "memory.recompute", scalar("full", d.defaults()));
  }
  if (const std::string method = d.word("finetuning-type"); method.empty() || method == "lora") {
    llamafactory_adapters(d);
  }
  llamafactory_formats(d);
}

}  // namespace

const Reader& llamafactory() {
  static const Reader reader = {
      "llamafactory",
      "transformers",
      {&llamafactory_rules(), &trainer_rules(), &common_rules(), &deepspeed_rules(),
       &launcher_rules()},
      {&llamafactory_meaningless(), &trainer_meaningless(), &deepspeed_meaningless(),
       &launcher_options()},
      {&llamafactory_unmodelled(), &trainer_unmodelled(), &deepspeed_unmodelled()},
      finish_llamafactory,
      false,
      {},
      false,
      {},
      {deepspeed_file("deepspeed")},
  };
  return reader;
}

}  // namespace stepcast::interop::launch
