// TRL's `trl sft` and scripts/sft.py: a command line, or the YAML of --config (trl 1.16.0). Its
// options are TrainingArguments', ModelConfig's and SFTConfig's.
#include <fmt/format.h>

#include "../options/launchers.h"
#include "../options/models.h"
#include "../options/parallelism.h"
#include "../options/rule.h"
#include "../options/why.h"
#include "../systems/deepspeed.h"
#include "readers.h"
#include "trainer.h"

namespace stepcast::interop::launch {
namespace {

// --accelerate_config: a file of Accelerate's, which is read as well, or one that TRL brings
// (accelerate_configs/).
void accelerate_file(Draft& d, const Setting& s, std::string_view key) {
  const std::string name = plain_text(s.value);
  if (name.ends_with(".yaml") || name.ends_with(".yml")) {
    d.meaningless(s, "its file is read as well");
  } else if (name == "single_gpu" || name == "multi_gpu") {
    d.set(s, key, "none");
  } else if (name == "fsdp1" || name == "fsdp2") {
    d.set(s, key, "zero3");
    if (name == "fsdp1") {
      d.preset = "trl-fsdp1";
    }
  } else if (name == "zero1" || name == "zero2" || name == "zero3") {
    d.set(s, key, std::string_view(name));
    d.preset = "deepspeed";
  } else {
    d.refuse(s, fmt::format("{} is '{}'; expected single_gpu | multi_gpu | fsdp1 | fsdp2 | zero1 | "
                            "zero2 | zero3 | a file",
                            s.shown, name));
  }
}

void offloaded_activations(Draft& d, const Setting& s, std::string_view key) {
  if (is_true(s)) {
    d.set(s, key, "cpu");  // models/activation_offloading.py: saved tensors, to pinned memory
  }
}

const std::vector<Rule>& trl_rules() {
  static const std::vector<Rule> list = {
      {"config", "",
       [](Draft& d, const Setting& s, std::string_view) {
         d.meaningless(s, "its file is read as well");
       }},
      {"accelerate-config", "parallelism.sharding", accelerate_file},
      flag("activation-offloading", "memory.offload.activations", offloaded_activations),
      flag("use-bnb-nested-quant"),
  };
  return list;
}

const std::vector<Unread>& trl_meaningless() {
  static const std::vector<Unread> list = {
      {"loss-type", "either loss reads the same log-probabilities"},
      {"truncation-mode", why::kData},
      {"shuffle-dataset", why::kData},
      {"packing-strategy", why::kData},
      {"eval-packing", why::kEvaluation},
      {"chat-template-path", why::kTokenizer},
      {"eos-token", why::kTokenizer},
      {"pad-token", why::kTokenizer},
      {"ignore-bias-buffers", "models here have no buffers"},
      {"lora-task-type", why::kSame},
      {"use-rslora", why::kLearning},
      {"bnb-4bit-quant-type", why::kSame},
      {"bnb-4bit-compute-dtype", why::kSame},
      {"trackio-*", why::kLogging},
      {"datasets*", why::kData},
  };
  return list;
}

const std::vector<Unread>& trl_unmodelled() {
  static const std::vector<Unread> list = {
      {"completion-only-loss", "every position has a label"},
      {"assistant-only-loss", "every position has a label"},
      {"pad-to-multiple-of", "every sequence is full"},
      {"router-aux-loss-coef", "one number is added to the loss"},
      {"use-dora", "adapters as LoRA has them"},
      {"lora-target-parameters", "adapters of linear layers"},
      {"model-init-kwargs*", "the model as it is loaded by default"},
      {"label-smoothing-factor", "a loss of whole logits, where it is above 0"},
  };
  return list;
}

void trl_adapters(Draft& d) {
  if (!d.on("use-peft")) {
    return;
  }
  peft_adapters(d);
  const Setting* twice = d.present("use-bnb-nested-quant");
  if (twice != nullptr && (d.on("load-in-4bit") || d.on("load-in-8bit"))) {
    d.set(*twice, "workload.finetune.qlora.double_quantized", is_true(*twice));
  }
}

// SFTConfig's defaults, where they are others than TrainingArguments' (trainer/base_config.py:62,
// :108; trainer/sft_config.py:202).
void finish_trl(Draft& d) {
  const Origin defaults = d.defaults();
  if (!d.on("fp16") && d.present("bf16") == nullptr) {
    d.assume(defaults, "workload.precision", scalar("bf16", defaults));
  }
  finish_trainer_sizes(d);
  d.assume(defaults, "workload.sequence_length", scalar("1024", defaults));
  if (const Setting* s = d.present("gradient-checkpointing"); s != nullptr && !is_true(*s)) {
    d.set(*s, "memory.recompute", "none");
  } else {
    d.assume(defaults, "memory.recompute", scalar("full", defaults));
  }
  if (!d.preset.starts_with("trl") && !d.overridden("system.use")) {  // DeepSpeed's, with that head
    d.assume(defaults, "kernels.loss", scalar("tiled_linear", defaults));
  }
  trl_adapters(d);
  trainer_weights(d);
}

}  // namespace

const Reader& trl() {
  static const Reader reader = {
      "trl",
      "trl",
      {&trl_rules(), &accelerate_rules(), &trainer_rules(), &common_rules(), &deepspeed_rules(),
       &launcher_rules()},
      {&trl_meaningless(), &accelerate_meaningless(), &trainer_meaningless(),
       &deepspeed_meaningless(), &launcher_options()},
      {&trl_unmodelled(), &accelerate_unmodelled(), &trainer_unmodelled(), &deepspeed_unmodelled()},
      finish_trl,
      false,
      {"parallelism-config", "fsdp-config", "deepspeed-config"},
      false,
      {},
      {{"config", of_document, ".yaml"},
       {"accelerate-config", of_accelerate, ".yaml"},
       {"config-file", of_accelerate},
       deepspeed_file("deepspeed"),
       deepspeed_file("deepspeed-config.deepspeed-config-file")},
  };
  return reader;
}

}  // namespace stepcast::interop::launch
