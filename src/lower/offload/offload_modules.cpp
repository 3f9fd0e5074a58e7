#include "offload_modules.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

namespace stepcast::lower {

using model::Module;
using model::Operator;

namespace {

bool belongs(const Operator& op, std::string_view module) {
  if (module == "attn_norm") {
    return op.name == "attention_norm";
  }
  if (module == "mlp_norm") {
    return op.name == "mlp_norm";
  }
  if (module == "qkv_linear") {
    return op.gemm && op.module == Module::attention && op.tensor == model::TensorRole::column;
  }
  if (module == "core_attn") {
    return op.module == Module::core_attention;
  }
  if (module == "attn_proj") {
    return op.gemm && op.module == Module::attention && op.tensor == model::TensorRole::row;
  }
  if (module == "expert_fc1") {
    return op.name == "expert_fc1";
  }
  return module == "moe_act" && op.name == "expert_act";
}

}  // namespace

double share_of_modules(const model::OperatorGraph& graph,
                        const std::vector<std::string>& modules) {
  std::unordered_set<std::uint32_t> all, those;
  double total = 0, moved = 0;
  for (const Operator& op : graph.operators) {
    const bool named = std::any_of(modules.begin(), modules.end(),
                                   [&](const std::string& m) { return belongs(op, m); });
    for (const model::Saved& saved : op.saved) {
      const auto bytes = static_cast<double>(saved.bytes.count());
      if (all.insert(saved.storage).second) {
        total += bytes;
      }
      // Unfused attention saves what it makes inside the module, too.
      const bool read = saved.name == "input" || saved.name == "qkv" ||
                        saved.name == "probabilities" || saved.name == "softmax_fp32" ||
                        saved.name == "mask";
      if (named && read && those.insert(saved.storage).second) {
        moved += bytes;
      }
    }
  }
  return total > 0 ? moved / total : 0;
}

}  // namespace stepcast::lower
