#include "optimizers.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace stepcast::interop::launch {

void optimizer_name(Draft& draft, const Setting& setting, std::string_view key) {
  std::string name = plain_text(setting.value);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  const bool eight = has("8bit");
  draft.set(setting, key,
            eight && has("adam") && has("paged") ? std::string_view("adamw_8bit_paged")
            : eight && has("adam")               ? std::string_view("adamw_8bit")
            : has("adafactor")                   ? std::string_view("adafactor")
            : has("muon")                        ? std::string_view("muon")
            : has("lion") && !eight              ? std::string_view("lion")
            : has("adam") || has("lamb") ? std::string_view("adamw")  // Lamb keeps Adam's moments
                                         : std::string_view(name));
}

void steps_in_backward(Draft& draft, const Setting& setting, bool once) {
  if (!is_true(setting)) {
    draft.meaningless(setting, "off");
  } else if (once) {
    draft.set(setting, "memory.optimizer_in_backward", true);
  } else {
    draft.unmodelled(setting,
                     "with several ranks, or micro-batches, gradients stand until the step");
  }
}

}  // namespace stepcast::interop::launch
