// Adapters of a row. Rows say lora, qlora or adapter; rank, modules and dropout are those of the
// framework's own scripts of the time, each an open fact.
#include "row_builder.h"

namespace stepcast::interop {
namespace {

struct Recipe {
  std::string_view framework;
  int rank;
  std::vector<const char*> targets;
  double dropout;
  const char* source;
};

// The first whose name is part of the row's framework.
const std::vector<Recipe>& recipes() {
  static const std::vector<Recipe> all = {
      // finetune/lora.py @8641822: lora_r, lora_query, lora_value, lora_dropout.
      {"litgpt", 8, {"q", "v"}, 0.05, "LoRA as litgpt's script sets it"},
      // recipes/configs/llama3/8B_lora.yaml and its kin: lora_attn_modules, apply_lora_to_mlp.
      {"torchtune",
       8,
       {"q", "v", "o", "gate", "up", "down"},
       0.0,
       "LoRA as torchtune's recipes set it"},
      // scripts/performance of Llama 3 70B: target_modules linear_qkv, dim 16.
      {"Bridge", 16, {"q", "k", "v"}, 0.0, "LoRA as the performance recipes set it"},
      // QwenLM/Qwen finetune.py: lora_r 64, c_attn, c_proj (attention's and the MLP's), w1, w2.
      {"HF Trainer", 64, {"all"}, 0.05, "LoRA as the model's finetune.py sets it"},
  };
  return all;
}

// LLaMA-Adapter's prompt (adapter_prompt_length 10) stands for its bottleneck; version 2 trains
// biases and norms as well, which no field tells apart.
constexpr int kPromptLength = 10;

}  // namespace

std::optional<Skipped> RowBuilder::write_finetune(Json& w) {
  const std::string kind = job["finetune"].text();
  if (kind.empty() || kind == "none") {
    return std::nullopt;
  }
  for (const Recipe& recipe : recipes()) {
    if (!contains(framework(), recipe.framework)) {
      continue;
    }
    if (kind == "adapter") {
      w["finetune"] = {{"adapter", {{"rank", kPromptLength}}}};
      assume("adapters as bottlenecks of a prompt's length", kFinetuneUnknown,
             kFinetuneMemoryUnknown);
      return std::nullopt;
    }
    if (kind != "lora" && kind != "qlora") {
      break;
    }
    Json f = {{"rank", recipe.rank}, {"targets", recipe.targets}};
    if (recipe.dropout > 0) {
      f["dropout"] = recipe.dropout;
    }
    // "quant=bnb.nf4" against "quant=bnb.nf4-dq".
    const std::string precision = row["precision"].text();
    if (kind == "qlora" && contains(precision, "nf4") && !contains(precision, "nf4-dq")) {
      f["double_quantized"] = false;
    }
    w["finetune"] = {{kind, f}};
    assume(recipe.source, kFinetuneUnknown, kFinetuneMemoryUnknown);
    return std::nullopt;
  }
  return Skipped{"finetune", kind + " of " + framework()};
}

}  // namespace stepcast::interop
