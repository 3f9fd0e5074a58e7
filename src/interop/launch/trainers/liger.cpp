#include "liger.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace stepcast::interop::launch {
namespace {

// An operator as jobs name it, and the options that name it.
struct LigerOption {
  const char* job;
  std::vector<std::string_view> options;
  bool by_default;
};

const std::array<LigerOption, 5>& liger_options() {
  static const std::array<LigerOption, 5> list = {
      LigerOption{"rope", {"rope"}, true},
      LigerOption{"rms_norm", {"rms-norm"}, true},
      LigerOption{"glu", {"glu-activation", "swiglu", "geglu"}, true},
      LigerOption{"cross_entropy", {"cross-entropy"}, false},
      LigerOption{"fused_linear_cross_entropy", {"fused-linear-cross-entropy"}, true},
  };
  return list;
}

const Setting* liger_option(const Draft& d, const LigerOption& one, const std::string& prefix) {
  for (const std::string_view option : one.options) {
    if (const Setting* s = d.present(prefix + std::string(option)); s != nullptr) {
      return s;
    }
  }
  return nullptr;
}

// `by_default`: an operator without an option of its own is patched as Liger does by default.
void liger_list(Draft& d, const Setting* whole, const std::string& prefix, bool by_default) {
  std::vector<std::string> names;
  const Setting* from = whole;
  for (const LigerOption& one : liger_options()) {
    const Setting* s = liger_option(d, one, prefix);
    if (s != nullptr ? is_true(*s) : by_default && one.by_default) {
      names.emplace_back(one.job);
    }
    from = s != nullptr ? s : from;
  }
  if (from != nullptr && !names.empty()) {
    d.set(*from, "kernels.liger", word_list(names, from->origin));
  }
}

}  // namespace

void liger_if_true(Draft& d, const Setting& s, std::string_view key) {
  if (is_true(s)) {
    d.set(s, key, true);
  } else {
    d.meaningless(s, "the default");
  }
}

void trainer_liger(Draft& d) {
  const Setting* on = d.present("use-liger-kernel");
  if (on == nullptr || !is_true(*on)) {
    return;
  }
  const bool chosen =
      std::any_of(liger_options().begin(), liger_options().end(), [&](const LigerOption& one) {
        return liger_option(d, one, "liger-kernel-config.") != nullptr;
      });
  if (chosen) {
    liger_list(d, on, "liger-kernel-config.", true);
  } else {
    d.set(*on, "kernels.liger", true);
  }
}

void axolotl_liger(Draft& d) { liger_list(d, nullptr, "liger-", false); }

}  // namespace stepcast::interop::launch
