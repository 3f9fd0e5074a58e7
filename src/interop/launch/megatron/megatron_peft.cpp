// Adapters of Megatron-Bridge and NeMo 2 (megatron-bridge 0.3.1, peft/lora.py; nemo_toolkit 2.4.0,
// collections/llm/peft/lora.py): rank 32 on all four products of a layer.
#include <fmt/format.h>

#include "../options/rule.h"
#include "megatron.h"

namespace stepcast::interop::launch {
namespace {

constexpr const char* kUsualAdapterRank = "32";

void usual_adapters(Draft& d, const Setting& s) {
  if (!d.stated("workload.finetune.lora.rank")) {
    d.set(s, "workload.finetune.lora.rank", scalar(kUsualAdapterRank, s.origin));
  }
  if (!d.stated("workload.finetune.lora.targets")) {
    d.set(s, "workload.finetune.lora.targets", word_list({"all"}, s.origin));
  }
}

void adapter_scheme(Draft& d, const Setting& s, std::string_view) {
  std::string kind = d.word(s.name);
  if (kind == "none") {
    d.meaningless(s, "all parameters are trained");
  } else if (kind == "lora" || kind == "dora") {
    usual_adapters(d, s);
    if (kind == "dora") {
      d.launch().remarks.push_back({s.origin, "dora is forecast as lora, without magnitudes"});
    }
  } else {
    d.refuse(s, fmt::format("{} is '{}'; expected lora | dora | none", s.shown, kind));
  }
}

void adapter_rank(Draft& d, const Setting& s, std::string_view key) {
  d.set(s, key, s.value);
  usual_adapters(d, s);
}

void adapter_modules(Draft& d, const Setting& s, std::string_view key) {
  const std::string named = plain_text(s.value);
  std::vector<std::string> out;
  for (const auto& [name, modules] :
       {std::pair<const char*, std::vector<std::string>>{"linear_qkv", {"qkv"}},
        {"linear_proj", {"o"}},
        {"linear_fc1", {"gate", "up"}},
        {"linear_fc2", {"down"}}}) {
    if (named.find(name) != std::string::npos) {
      out.insert(out.end(), modules.begin(), modules.end());
    }
  }
  if (out.empty()) {
    d.refuse(s, fmt::format("{} is '{}'; expected some of linear_qkv, linear_proj, linear_fc1, "
                            "linear_fc2",
                            s.shown, named));
    return;
  }
  d.set(s, key, word_list(out, s.origin));
  usual_adapters(d, s);
}

}  // namespace

const std::vector<Rule>& megatron_peft_rules() {
  static const std::vector<Rule> list = {
      {"peft", "workload.finetune", adapter_scheme},
      {"peft.dim", "workload.finetune.lora.rank", adapter_rank},
      {"peft.target-modules", "workload.finetune.lora.targets", adapter_modules},
      {"peft.dropout", "workload.finetune.lora.dropout"},
  };
  return list;
}

}  // namespace stepcast::interop::launch
