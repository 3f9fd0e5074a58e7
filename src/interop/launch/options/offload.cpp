#include "offload.h"

#include <string>

namespace stepcast::interop::launch {

void offloaded_if_true(Draft& draft, const Setting& setting, std::string_view key) {
  if (is_true(setting)) {
    draft.set(setting, key, "cpu");
  } else {
    draft.meaningless(setting, "nothing is offloaded");
  }
}

void offloaded_to(Draft& draft, const Setting& setting, std::string_view key) {
  const std::string device = plain_text(setting.value);
  if (device == "none" || device.empty() || device == "null") {
    draft.meaningless(setting, "nothing is offloaded");
  } else {
    draft.set(setting, key, std::string_view(device));
  }
}

void offloaded_share(Draft& draft, const Setting& setting, std::string_view key) {
  const auto share = draft.number(setting.name);
  if (!share) {
    return;
  }
  if (*share == 0) {
    draft.meaningless(setting, "nothing is offloaded");
  } else if (*share == 1) {
    draft.set(setting, key, "cpu");
  } else {
    draft.set(setting, std::string(key) + ".to", "cpu");
    draft.set(setting, std::string(key) + ".ratio", *share);
  }
}

void offload_fsdp(Draft& draft, const Setting& setting) {
  draft.set(setting, "memory.offload.optimizer", "cpu");
  draft.set(setting, "memory.offload.parameters", "cpu");
  draft.set(setting, "memory.offload.gradients", "cpu");
  draft.set(setting, "memory.offload.prefetch", 0);
}

void fsdp_offloaded_if_true(Draft& draft, const Setting& setting, std::string_view) {
  if (is_true(setting)) {
    offload_fsdp(draft, setting);
  } else {
    draft.meaningless(setting, "nothing is offloaded");
  }
}

}  // namespace stepcast::interop::launch
