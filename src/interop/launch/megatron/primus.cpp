// The experiment YAML of AMD's Primus with its Megatron backend: modules.pre_trainer names a model
// and overrides Megatron-LM's arguments, spelled with underscores. Primus is in no package
// registry; the names of its own options are from memory.
#include <fmt/format.h>

#include "../options/launchers.h"
#include "../options/models.h"
#include "../options/rule.h"
#include "../options/why.h"
#include "megatron.h"
#include "readers.h"

namespace stepcast::interop::launch {
namespace {

// "llama3.1_8B.yaml": a file of Primus's own models.
void primus_model(Draft& d, const Setting& s, std::string_view key) {
  Setting model = s;
  std::string name = plain_text(s.value);
  for (const char* suffix : {".yaml", ".yml"}) {
    if (name.ends_with(suffix)) {
      name.erase(name.size() - std::string_view(suffix).size());
    }
  }
  model.value.scalar = name;
  named_model(d, model, key);
}

void primus_framework(Draft& d, const Setting& s, std::string_view) {
  if (const std::string name = plain_text(s.value); name != "megatron") {
    d.refuse(s, fmt::format("{} is '{}'; expected megatron, the backend whose options are read",
                            s.shown, name));
  }
}

const std::vector<Rule>& primus_rules() {
  static const std::vector<Rule> list = {
      {"modules.pre-trainer.model", "model", primus_model},
      {"modules.pre-trainer.framework", "", primus_framework},
      // Megatron-LM's flags that switch something off, by the names of their values.
      {"gradient-accumulation-fusion", "system.gradient_accumulation_fusion"},
      {"masked-softmax-fusion", "system.fused_softmax"},
      {"bias-gelu-fusion", "system.fused_bias_activation"},
      {"bias-swiglu-fusion", "system.fused_bias_activation"},
      {"bias-dropout-fusion", "system.fused_bias_dropout_add"},
      {"async-tensor-model-parallel-allreduce", "system.async_tensor_backward"},
      {"overlap-p2p-comm", "parallelism.overlap.pipeline"},
  };
  return list;
}

const std::vector<Unread>& primus_meaningless() {
  constexpr const char* kRun = "the name of the run";
  static const std::vector<Unread> list = {
      {"work-group", kRun},
      {"user-name", kRun},
      {"exp-name", kRun},
      {"workspace", why::kResults},
      {"modules.pre-trainer.config", "Megatron-LM's defaults, which the preset holds"},
      {"stderr-sink-level", why::kLogging},
      {"log-avg-skip-iterations", why::kLogging},
      {"log-avg-reset-interval", why::kLogging},
      {"use-rocm-mem-info*", why::kLogging},
      {"auto-continue-train", why::kCheckpoints},
      {"disable-last-saving", why::kCheckpoints},
      {"finetune", why::kCheckpoints},
  };
  return list;
}

const std::vector<Unread>& primus_unmodelled() {
  constexpr const char* kTurbo =
      "AMD's kernels are priced by the device's curves, whichever library runs";
  static const std::vector<Unread> list = {
      {"enable-primus-turbo", kTurbo},
      {"use-turbo-*", kTurbo},
      {"enable-turbo-*", kTurbo},
      {"moe-use-fused-router-with-aux-score", kTurbo},
      {"use-deprecated-20241209-moe-layer", "experts run as one grouped product"},
  };
  return list;
}

}  // namespace

const Reader& primus() {
  static const Reader reader = {
      "primus",
      "megatron-lm",
      {&primus_rules(), &common_rules(), &megatron_model_rules(), &megatron_hybrid_rules(),
       &megatron_parallel_rules(), &megatron_kernel_rules(), &megatron_bf16_layer_rules(),
       &launcher_rules()},
      {&primus_meaningless(), &megatron_meaningless(), &launcher_options()},
      {&primus_unmodelled(), &megatron_unmodelled()},
      [](Draft& d) {
        // A model that is named has its own numbers; what overrides them is Megatron-LM's.
        if (d.find("modules.pre-trainer.model") == nullptr) {
          finish_megatron_model(d);
        }
        finish_megatron_kernels(d);
        finish_megatron_parallel(d);
      },
      true,
      {"*"},
  };
  return reader;
}

}  // namespace stepcast::interop::launch
