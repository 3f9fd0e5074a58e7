#include "offload_of_row.h"

#include <regex>
#include <string>

namespace stepcast::interop {

std::optional<OffloadedActivations> offloaded_activations(Fields row) {
  // Megatron-LM's launch flags: "[expert_fc1 moe_act]".
  const Fields flags = row["extra_args"];
  if (flags.is_map() && flags["fine-grained-activation-offloading"].is_true()) {
    OffloadedActivations out;
    const std::string names = flags["offload-modules"].text();
    static const std::regex word("[a-z0-9_]+");
    for (std::sregex_iterator i(names.begin(), names.end(), word), end; i != end; ++i) {
      out.modules.push_back(i->str());
    }
    return out;
  }
  const std::string text = row["offload"].text();
  static const std::regex layers("activation offload, ([0-9]{1,4}) layers to CPU");
  std::smatch found;
  if (std::regex_match(text, found, layers)) {
    return OffloadedActivations{std::stoll(found[1]), {}};
  }
  if (text == "activations (saved_tensors_hooks)") {
    return OffloadedActivations{};
  }
  if (text == "activation (expert_fc1, moe_act)") {
    return OffloadedActivations{0, {"expert_fc1", "moe_act"}};
  }
  return std::nullopt;
}

}  // namespace stepcast::interop
