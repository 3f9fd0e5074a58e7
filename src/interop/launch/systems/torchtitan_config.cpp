// torchtitan's functions in Python (0.3.0, models/*/config_registry.py), which took the place of
// TOML: sections as before, and classes where words were.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string>

#include "../options/models.h"
#include "../options/why.h"
#include "torchtitan.h"

namespace stepcast::interop::launch {
namespace {

// distributed/activation_checkpoint.py:166 to :290. What the function leaves out is the preset's.
void recompute(Draft& d) {
  const Setting* s = d.present("activation-checkpoint");
  if (s == nullptr) {
    return;
  }
  const std::string name = plain_text(s->value);
  d.drop("memory.recompute");
  if (says_nothing(*s)) {
    d.set(*s, "memory.recompute", "none");
  } else if (name == "FullAC") {
    d.set(*s, "memory.recompute", "full");
  } else if (name == "SelectiveAC") {
    d.set(*s, "memory.recompute.per_op", "sac");
  } else if (name == "MemoryBudgetAC") {
    torchtitan_memory_budget(d, *s);
  } else {
    d.refuse(*s, fmt::format("{} is '{}'; expected FullAC | SelectiveAC | MemoryBudgetAC | None",
                             s->shown, name));
  }
}

// torchtitan 0.3.0 hands torchao's own filter a configuration, which that takes for no linear, so
// that nothing is converted (components/quantization/float8.py:137; torchao 0.18.0,
// float8/float8_linear_utils.py:165; recorded step titan03-rowwise-filtered-l8 of tests/oracle).
bool filters_all(const Draft& d, const std::string& converters) {
  const auto filters = [](const Setting& s) {
    return s.name.ends_with(".filter-fqns") &&
           plain_text(s.value).find("auto_filter_small_kn") != std::string::npos;
  };
  return converters.find("Float8LinearConverter") != std::string::npos &&
         converters.find("GroupedExperts") == std::string::npos &&
         std::any_of(d.settings().begin(), d.settings().end(), filters);
}

// components/quantization: every converter to 8 bits scales rows (float8.py:58).
void converters(Draft& d) {
  const Setting* s = d.find("model-spec.converters");
  if (s == nullptr) {
    return;
  }
  const std::string names = plain_text(s->value);
  const auto has = [&](const char* part) { return names.find(part) != std::string::npos; };
  if (has("LoRA")) {
    d.refuse(*s, "adapters of a converter are not read; expected --set workload.finetune=...");
  } else if (filters_all(d, names)) {
    d.meaningless(*s, "torchao's filter leaves nothing to convert in this version");
  } else if (has("MXFP8") || has("NVFP4") || has("Float8")) {
    d.set(*s, "workload.precision", has("MXFP8") ? "mxfp8" : has("NVFP4") ? "nvfp4" : "fp8_block");
  } else if (!names.empty()) {
    d.unmodelled(*s, "converters other than those to 8 and 4 bits");
  }
}

// components/loss.py: in chunks, or whole.
void loss(Draft& d) {
  const Setting* s = d.find("loss");
  if (s == nullptr) {
    return;
  }
  const std::string name = plain_text(s->value);
  if (name == "ChunkedLossWrapper") {
    d.set(*s, "kernels.loss", "chunked");
  } else if (name == "CrossEntropyLoss" || name == "MTPLoss") {
    d.set(*s, "kernels.loss", "eager");
  } else {
    d.unmodelled(*s, "the loss is cross entropy");
  }
}

// Graphs of the step are on where nothing switches them off (config/configs.py:66). torchtitan
// refuses them with stages, and where the host reads what experts get (trainer.py:179).
void graphs(Draft& d) {
  const Setting* spec = d.find("model-spec");
  const Setting* off = d.find("training.disable-cuda-graphs");
  if (spec == nullptr || (off != nullptr && is_true(*off))) {
    return;
  }
  const Setting& at = off != nullptr ? *off : *spec;
  const bool stages = d.size("parallelism.pipeline", 1) > 1;
  const bool reads = d.size("parallelism.expert", 1) > 1 && d.text("moe.dispatcher") != "hybridep";
  if (stages || reads) {
    d.launch().remarks.push_back(
        {at.origin, fmt::format("torchtitan refuses CUDA graphs with {}: forecast without",
                                stages ? "stages" : "this dispatcher of experts")});
  } else {
    d.set(at, "kernels.cuda_graph", true);
  }
}

}  // namespace

const std::vector<Rule>& torchtitan_config_rules() {
  static const std::vector<Rule> list = {
      {"model-spec", "model", later},
      {"model-spec.moe-comm-backend", "moe.dispatcher", torchtitan_dispatcher},
      {"model-spec.num-mtp-layers", "model.mtp_layers"},
      {"model-spec.converters", "workload.precision", later},
      {"activation-checkpoint", "memory.recompute", later},
      {"activation-checkpoint.memory-budget", "memory.recompute", later},
      {"loss", "kernels.loss", later},
      flag("training.disable-cuda-graphs", "kernels.cuda_graph", later),
      spelling("compile.enable-async-tensor-parallel", "parallelism.enable-async-tensor-parallel"),
  };
  return list;
}

const std::vector<Unread>& torchtitan_config_meaningless() {
  static const std::vector<Unread> list = {
      {"hf-assets-path", "where weights come from"},
      {"dump-folder", why::kResults},
      {"profiler*", why::kProfiling},
      {"metrics", why::kLogging},
      {"tokenizer*", why::kTokenizer},
      {"dataloader*", why::kData},
      {"optimizer", "AdamW, as the system has it"},
      {"lr-scheduler", why::kLearning},
      {"checkpoint", why::kCheckpoints},
      {"validator*", why::kEvaluation},
      {"override*", "how the program is extended"},
      {"loss.*", "the loss as its class has it"},
      {"module", "the folder of the function"},
      {"model-spec.attn-backend", "the system's attention stands for it"},
      {"model-spec.converters.*", why::kNumerics},
      {"activation-checkpoint.*", why::kNumerics},
  };
  return list;
}

const std::vector<Unread>& torchtitan_config_unmodelled() {
  static const std::vector<Unread> list = {
      {"model-spec.tp-gemm-backend", "collectives of tensor ranks run beside no product"},
      {"model-spec.non-blocking-capacity-factor", "experts have the memory that their rows take"},
      {"model-spec.*", "the model is as its name says"},
  };
  return list;
}

// 0.3.0, models/common/config_utils.py.
void torchtitan_dispatcher(Draft& d, const Setting& s, std::string_view key) {
  const std::string name = plain_text(s.value);
  if (name == "minimal_async_ep") {
    d.set(s, key, "hybridep");
    d.launch().remarks.push_back({s.origin, "MinimalAsyncEP is forecast as HybridEP"});
  } else if (name == "standard" || name == "deepep" || name == "hybridep") {
    d.set(s, key, name == "standard" ? std::string_view("alltoall") : std::string_view(name));
  } else {
    d.refuse(s, fmt::format("{} is '{}'; expected standard | deepep | hybridep | minimal_async_ep",
                            s.shown, name));
  }
}

void torchtitan_config_model(Draft& d) {
  const Setting* spec = d.find("model-spec");
  if (spec == nullptr || !d.request().model.empty() || d.overridden("model")) {
    return;
  }
  const std::string flavor = plain_text(spec->value);
  const std::string family =
      std::filesystem::path(spec->origin.file).parent_path().filename().string();
  for (const std::string& of : {family + "_" + flavor, flavor}) {
    for (const std::string& name : spellings(of)) {
      if (use_model(d, *spec, name)) {
        return;
      }
    }
  }
  d.refuse(*spec, fmt::format("{} '{}_{}' is not a model of configs/models; expected --model NAME",
                              spec->shown, family, flavor));
}

void torchtitan_config(Draft& d) {
  recompute(d);
  converters(d);
  loss(d);
  graphs(d);
}

}  // namespace stepcast::interop::launch
