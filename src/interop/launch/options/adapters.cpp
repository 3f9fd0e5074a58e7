#include "adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "rule.h"

namespace stepcast::interop::launch {
namespace {

// PEFT's modules_to_save, by the names that models have for them.
Value saved_modules(const Value& given) {
  std::vector<std::string> out = words_of(given);
  for (std::string& word : out) {
    const bool table = word == "embed_tokens" || word == "wte" || word == "word_embeddings";
    word = table ? "embedding" : word == "lm_head" ? "head" : word;
  }
  return word_list(out, given.origin);
}

// PEFT's target modules, where q_proj means q.
Value target_modules(const Value& given) {
  std::vector<std::string> out;
  for (std::string name : words_of(given)) {
    if (name == "all-linear" || name == "all_linear") {
      name = "all";
    }
    name.erase(0, name.rfind('.') + 1);  // "self_attn.q_proj"
    if (const auto at = name.find("_proj"); at != std::string::npos) {
      name.erase(at);
    }
    name = name == "*" ? "all" : name;  // "*_proj"
    if (std::find(out.begin(), out.end(), name) == out.end()) {
      out.push_back(name);
    }
  }
  return word_list(out, given.origin);
}

}  // namespace

void set_adapters(Draft& d, const Adapters& a) {
  const std::string key =
      fmt::format("workload.finetune.{}", a.quantised != nullptr ? "qlora" : "lora");
  const Setting* from = a.rank != nullptr ? a.rank : a.asked;
  if (a.quantised != nullptr) {
    d.set(*a.quantised, key + ".rank", 16);
  }
  if (from != nullptr) {
    d.set(*from, key + ".rank",
          a.rank != nullptr ? a.rank->value : scalar(a.usual_rank, from->origin));
  } else {
    d.assume(d.defaults(), key + ".rank", scalar(a.usual_rank, d.defaults()));
  }
  if (a.dropout != nullptr) {
    d.set(*a.dropout, key + ".dropout", a.dropout->value);
  }
  if (a.saved != nullptr) {
    d.set(*a.saved, key + ".modules_to_save", saved_modules(a.saved->value));
  }
  if (a.targets != nullptr) {
    d.set(*a.targets, key + ".targets", target_modules(a.targets->value));
  } else if (!a.usual_targets.empty()) {
    d.assume(d.defaults(), key + ".targets", target_modules(scalar(a.usual_targets, d.defaults())));
  }
}

}  // namespace stepcast::interop::launch
