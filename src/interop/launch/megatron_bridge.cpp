// Overrides of a Megatron-Bridge recipe: SECTION.NAME=VALUE of its command line, or the same in
// YAML (megatron-bridge 0.3.1, training/config.py; the names of a section are Megatron-Core's). A
// recipe itself is Python, and is not read.
#include <fmt/format.h>

#include "megatron.h"

namespace stepcast::interop::launch {
namespace {

// "llama3_70b_pretrain_config" names the model; its layout has to be stated.
void bridge_recipe(Draft& d, const Setting& s, std::string_view key) {
  std::string name = plain_text(s.value);
  for (const char* kind : {"_pretrain", "_finetune", "_sft", "_peft", "_config"}) {
    if (const auto at = name.find(kind); at != std::string::npos) {
      name.erase(at);
    }
  }
  Setting model = s;
  model.value.scalar = name;
  named_model(d, model, key);
  d.launch().remarks.push_back(
      {s.origin,
       fmt::format("{} is Python: what it sets itself is not read, only what overrides it",
                   plain_text(s.value))});
}

// training/mixed_precision.py:171 to :406.
void bridge_precision(Draft& d, const Setting& s, std::string_view key) {
  const std::string name = plain_text(s.value);
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  const char* format = has("mxfp8")                         ? "mxfp8"
                       : has("nvfp4")                       ? "nvfp4"
                       : has("subchannel") || has("nanov2") ? "fp8_block"
                       : has("fp8")                         ? "fp8"
                       : has("bf16")                        ? "bf16"
                       : has("fp16")                        ? "fp16"
                                                            : nullptr;
  if (format == nullptr) {
    d.refuse(s, fmt::format("{} is '{}'; expected a name such as bf16_mixed or "
                            "bf16_with_fp8_current_scaling_mixed",
                            s.shown, name));
    return;
  }
  d.set(s, key, format);
}

void bridge_reduction(Draft& d, const Setting& s, std::string_view) {
  const char* format = is_true(s) ? "fp32" : "bf16";
  d.set(s, "memory.dtypes.gradients", format);
  d.set(s, "memory.dtypes.reduce", format);
}

const std::vector<Rule>& bridge_rules() {
  static const std::vector<Rule> list = {
      {"recipe", "model", bridge_recipe},
      {"dataset.seq-length", "workload.sequence_length"},
      {"dataset.sequence-length", "workload.sequence_length"},
      {"mixed-precision", "workload.precision", bridge_precision},
      {"grad-reduce-in-fp32", "", bridge_reduction},
      {"virtual-pipeline-model-parallel-size", "parallelism.virtual_pipeline"},
      {"calculate-per-token-loss", "the loss as the system has it", unmodelled_if_true},
  };
  return list;
}

const std::vector<Unread>& bridge_meaningless() {
  constexpr const char* kOther = "no part of a training step";
  constexpr const char* kRun = "the length of the run";
  constexpr const char* kData = "data loading is assumed to be fast enough";
  static const std::vector<Unread> list = {
      {"checkpoint.*", "checkpoints are not part of a step"},
      {"logger.*", "logging"},
      {"profiling.*", "logging"},
      {"tensor-inspect.*", "logging"},
      {"straggler.*", "logging"},
      {"nvrx-straggler.*", "logging"},
      {"scheduler.*", "affects learning and not speed"},
      {"rng.*", "affects learning and not speed"},
      {"tokenizer.*", "where the tokenizer comes from"},
      {"dataset.*", kData},
      {"ft.*", kOther},
      {"inprocess-restart.*", kOther},
      {"rerun-state-machine.*", kOther},
      {"train.train-iters", kRun},
      {"train.train-samples", kRun},
      {"train.eval-*", kOther},
      {"train.exit-*", kRun},
      {"train.skip-train", kRun},
      {"train.manual-gc*", "memory housekeeping between steps"},
      {"config-file", "its file is another input"},
  };
  return list;
}

const std::vector<Unread>& bridge_unmodelled() {
  static const std::vector<Unread> list = {
      {"peft*", "all parameters are trained; workload.finetune states adapters"},
      {"num-moe-experts", "the model is as its name says"},
      {"mixed-precision.*", "mixed_precision by its name"},
      {"comm-overlap.*", "overlap as the system has it"},
      {"dist.*", "processes as the system starts them"},
  };
  return list;
}

void finish_bridge(Draft& d) {
  d.assume(d.defaults(), "workload.precision", scalar("bf16", d.defaults()));  // recipes/common.py
  finish_megatron_kernels(d);
  finish_megatron_parallel(d);
  if (const Setting* s = d.find("expert-tensor-parallel-size")) {
    d.set(*s, "parallelism.expert_tensor", s->value);  // the model's experts are known by its name
  }
}

}  // namespace

const Reader& megatron_bridge() {
  static const Reader reader = {
      "megatron-bridge",
      "megatron-bridge",
      {&bridge_rules(), &common_rules(), &megatron_model_rules(), &megatron_parallel_rules(),
       &megatron_kernel_rules(), &launcher_rules()},
      {&bridge_meaningless(), &megatron_meaningless(), &launcher_options()},
      {&bridge_unmodelled(), &megatron_unmodelled()},
      finish_bridge,
      true,
      {"*"},
  };
  return reader;
}

}  // namespace stepcast::interop::launch
