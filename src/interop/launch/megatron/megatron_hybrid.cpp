// Models whose layers are a mixer or an MLP each: Megatron-LM's --hybrid-layer-pattern
// (megatron-core 0.19.2, models/hybrid/hybrid_layer_allocation.py, Symbols; 0.16.1,
// ssm/mamba_hybrid_layer_allocation.py, where the option is --hybrid-override-pattern).
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "../options/rule.h"
#include "megatron.h"
#include "stepcast/config/layer_letters.h"

namespace stepcast::interop::launch {
namespace {

constexpr const char* kNames = "letters M (Mamba), * (attention), - (MLP) and E (experts)";

std::vector<std::string> parts_of(const std::string& pattern) {
  std::vector<std::string> out(1);
  for (const char c : pattern) {
    if (c == '/') {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

// Behind a stroke stand prediction layers, here of attention and an MLP or experts.
void prediction_layers(Draft& d, const Setting& s, const std::vector<std::string>& parts) {
  const auto whole = [](const std::string& part) { return part == "*E" || part == "*-"; };
  if (!std::all_of(parts.begin() + 1, parts.end(), whole)) {
    d.refuse(s, fmt::format("{} has prediction layers that are not attention and an MLP or experts",
                            s.shown));
  } else if (parts.size() > 1 && d.find("mtp-num-layers") == nullptr) {
    d.set(s, "model.mtp_layers", static_cast<std::int64_t>(parts.size() - 1));
  }
}

// megatron-core 0.16.1, transformer/transformer_config.py:846 to :857: twice the width in heads of
// 64; ssm/mamba_mixer.py:164: chunks of 128 tokens.
void mamba(Draft& d, const Setting& s) {
  constexpr std::int64_t kHead = 64, kState = 128, kGroups = 8, kExpand = 2, kChunk = 128;
  const auto size = [&](const char* option, const char* key, std::int64_t otherwise) {
    const Setting* stated = d.find(option);
    const std::int64_t value = d.integer(option).value_or(otherwise);
    d.set(stated != nullptr ? *stated : s, key, value);
    return value;
  };
  const std::int64_t head = size("mamba-head-dim", "model.mamba.head_dim", kHead);
  const std::int64_t width = kExpand * d.integer("hidden-size").value_or(0);
  size("mamba-num-heads", "model.mamba.heads", head > 0 ? width / head : 0);
  size("mamba-state-dim", "model.mamba.state", kState);
  size("mamba-num-groups", "model.mamba.groups", kGroups);
  d.set(s, "model.mamba.chunk", kChunk);
}

}  // namespace

const std::vector<Rule>& megatron_hybrid_rules() {
  static const std::vector<Rule> rules = {
      {"hybrid-layer-pattern", "model.mixers", later},
      spelling("hybrid-override-pattern", "hybrid-layer-pattern"),
      flag("is-hybrid-model"),
      {"mamba-num-heads", "model.mamba.heads", later},
      {"mamba-head-dim", "model.mamba.head_dim", later},
      {"mamba-state-dim", "model.mamba.state", later},
      {"mamba-num-groups", "model.mamba.groups", later},
  };
  return rules;
}

void finish_megatron_hybrid(Draft& d) {
  const Setting* s = d.find("hybrid-layer-pattern");
  if (!d.request().model.empty() || d.overridden("model.mixers")) {
    return;
  }
  if (s == nullptr) {
    if (d.on("is-hybrid-model")) {
      const Setting* hybrid = d.present("is-hybrid-model");
      d.refuse(*hybrid, fmt::format("{} lays out mixers and MLPs as layers of their own; expected "
                                    "--hybrid-layer-pattern, or --model NAME",
                                    hybrid->shown));
    }
    return;
  }
  const std::vector<std::string> parts = parts_of(plain_text(s->value));
  std::string mixers, mlps;
  for (const char c : parts.front()) {
    mixers += c == 'M' ? 'm' : c == '*' ? 'a' : '-';
    mlps += c == '-' ? 'd' : c == 'E' ? 'e' : '-';
    if (c != 'M' && c != '*' && c != '-' && c != 'E') {
      d.refuse(*s, fmt::format("{} has the letter '{}'; expected {}", s->shown, c, kNames));
      return;
    }
  }
  if (mixers.empty()) {
    d.refuse(*s, fmt::format("{} names no layer; expected {}", s->shown, kNames));
    return;
  }
  d.set(*s, "model.layers", static_cast<std::int64_t>(mixers.size()));
  d.set(*s, "model.mixers", std::string_view(config::repeated(mixers)));
  d.set(*s, "model.mlps", std::string_view(config::repeated(mlps)));
  if (mixers.find('m') != std::string::npos) {
    mamba(d, *s);
  }
  prediction_layers(d, *s, parts);
}

}  // namespace stepcast::interop::launch
