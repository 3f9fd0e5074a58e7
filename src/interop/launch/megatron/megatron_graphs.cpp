// CUDA graphs, by the options of several versions of Megatron-LM.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "../options/rule.h"
#include "megatron.h"

namespace stepcast::interop::launch {
namespace {

// Which option asks for graphs, what its words for their scope are, and what they name.
struct Graphs {
  const Setting* asked = nullptr;
  const Setting* scope = nullptr;
  bool step = false;  // of the whole iteration
  std::vector<std::string> modules;
};

Graphs graphs_asked(Draft& d) {
  Graphs graphs;
  for (const char* name : {"cuda-graph-impl", "external-cuda-graph", "enable-cuda-graph"}) {
    if (const Setting* s = d.find(name); s != nullptr && is_true(*s) && graphs.asked == nullptr) {
      graphs.asked = s;
    }
  }
  graphs.step = graphs.asked != nullptr && plain_text(graphs.asked->value) == "full_iteration";
  const Setting* scope = d.find("cuda-graph-modules");
  if (scope != nullptr && graphs.asked == nullptr) {
    d.meaningless(*scope, "no graph is asked for");
  } else if (scope != nullptr) {
    graphs.scope = scope;
    for (const std::string& word : words_of(scope->value)) {
      if (word == "full_iteration") {
        graphs.step = true;
      } else if (word != "full" && word != "full_iteration_inference") {
        graphs.modules.push_back(word);
      }
    }
  }
  return graphs;
}

// Megatron-LM's own implementation does not tell these two apart (0.16.1, :1726 to :1735).
void add_router_modules(std::vector<std::string>& modules) {
  const auto named = [&](const char* module) {
    return std::find(modules.begin(), modules.end(), module) != modules.end();
  };
  const bool router = named("moe_router");
  const bool preprocess = named("moe_preprocess");
  if (preprocess && !router) {
    modules.emplace_back("moe_router");
  } else if (router && !preprocess) {
    modules.emplace_back("moe_preprocess");
  }
}

}  // namespace

// What graphs capture (megatron-core 0.16.1, transformer/transformer_config.py:776 to :1720;
// 0.19.2, :1031 to :1064): the whole iteration, modules of each layer, or, without a word, whole
// layers.
void finish_megatron_graphs(Draft& d) {
  const Setting* impl = d.find("cuda-graph-impl");
  if (impl != nullptr && is_true(*impl)) {
    const std::string kind = plain_text(impl->value);
    if (kind != "local" && kind != "transformer_engine" && kind != "full_iteration") {
      d.refuse(*impl, fmt::format("{} is '{}'; expected none | local | transformer_engine | "
                                  "full_iteration",
                                  impl->shown, kind));
      return;
    }
  }
  Graphs graphs = graphs_asked(d);
  if (graphs.step && !graphs.modules.empty()) {
    d.meaningless(*graphs.scope, "a graph of the whole iteration captures every module");
  }
  if (graphs.asked == nullptr || graphs.step) {
    return;
  }
  if (graphs.modules.empty()) {
    graphs.modules = {"attn", "mamba", "mlp", "moe"};
  }
  if (graphs.asked->name == "enable-cuda-graph" || plain_text(graphs.asked->value) == "local") {
    add_router_modules(graphs.modules);
  }
  const Setting& from = graphs.scope != nullptr ? *graphs.scope : *graphs.asked;
  d.set(from, "kernels.cuda_graph_modules", word_list(graphs.modules, from.origin));
}

}  // namespace stepcast::interop::launch
