// What Megatron-LM recomputes: its options, which are read together.
#include <fmt/format.h>

#include <string>
#include <utility>

#include "../options/rule.h"
#include "megatron.h"

namespace stepcast::interop::launch {
namespace {

// Flags for the recomputation of one module: Megatron-LM's --moe-layer-recompute, Megatron-Kwai's
// activations and norms.
void forked_modules(Draft& d) {
  Value list;
  list.kind = Value::Kind::sequence;
  const Setting* last = nullptr;
  for (const auto& [flag, module] : {std::pair{"moe-layer-recompute", "moe"},
                                     {"kaimm-recompute-mlp-activation-func", "act"},
                                     {"kaimm-recompute-norm", "norm"}}) {
    if (const Setting* s = d.present(flag); s != nullptr && is_true(*s)) {
      list.items.push_back(scalar(module, s->origin));
      last = s;
    }
  }
  if (last != nullptr) {
    list.origin = last->origin;
    d.drop("memory.recompute");
    d.set(*last, "memory.recompute.modules", list);
  }
}

void selective_recompute(Draft& d, const Setting& granularity) {
  const Setting* modules = d.find("recompute-modules");
  if (modules != nullptr && modules->value.kind == Value::Kind::sequence &&
      modules->value.items.empty()) {
    d.set(*modules, "memory.recompute", "none");
  } else if (modules == nullptr || plain_text(modules->value) == "core_attn") {  // the default
    d.set(granularity, "memory.recompute", "selective");
  } else {
    d.drop("memory.recompute");
    d.set(*modules, "memory.recompute.modules",
          modules->value.kind == Value::Kind::sequence
              ? modules->value
              : word_list({plain_text(modules->value)}, modules->origin));
  }
}

}  // namespace

void finish_megatron_recompute(Draft& d) {
  const Setting* granularity = d.find("recompute-granularity");
  const Setting* method = d.find("recompute-method");
  if (granularity == nullptr) {
    forked_modules(d);
    return;
  }
  for (const char* flag :
       {"moe-layer-recompute", "kaimm-recompute-mlp-activation-func", "kaimm-recompute-norm"}) {
    if (const Setting* s = d.present(flag); s != nullptr) {
      d.unmodelled(*s, "recompute-granularity states what is recomputed");
    }
  }
  const std::string kind = plain_text(granularity->value);
  if (kind == "selective") {
    selective_recompute(d, *granularity);
    return;
  }
  if (kind != "full") {
    d.refuse(*granularity,
             fmt::format("{} is '{}'; expected full | selective", granularity->shown, kind));
    return;
  }
  if (method == nullptr) {
    d.set(*granularity, "memory.recompute", "full");
    return;
  }
  const std::string how = plain_text(method->value);
  if (how != "uniform" && how != "block") {
    d.refuse(*method, fmt::format("{} is '{}'; expected uniform | block", method->shown, how));
    return;
  }
  const std::string key = "memory.recompute." + how;
  d.drop("memory.recompute");
  if (const Setting* layers = d.find("recompute-num-layers")) {
    d.set(*layers, key, layers->value);
  } else {
    d.set(*method, key, 1);
  }
}

}  // namespace stepcast::interop::launch
