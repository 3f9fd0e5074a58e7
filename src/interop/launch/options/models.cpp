#include "models.h"

#include <fmt/format.h>

#include <filesystem>

#include "rule.h"
#include "stepcast/config/config.h"

namespace stepcast::interop::launch {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

bool use_model(Draft& draft, const Setting& setting, const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (const fs::path& file : {fs::path(name), fs::path(name) / "config.json"}) {
    if (file.extension() == ".json" && fs::is_regular_file(file, error)) {
      draft.set(setting, "model.use", scalar(file.string(), setting.origin, true));
      return true;
    }
  }
  if (const auto model = config::known_model(name)) {
    draft.set(setting, "model.use", scalar(*model, setting.origin, true));
    return true;
  }
  return false;
}

void named_model(Draft& draft, const Setting& setting, std::string_view) {
  const std::string name = plain_text(setting.value);
  if (use_model(draft, setting, name) || !draft.request().model.empty() ||
      draft.overridden("model")) {
    return;
  }
  draft.refuse(setting, fmt::format("{} '{}' is not a model of configs/models; expected --model "
                                    "NAME, or the path of its config.json",
                                    setting.shown, name));
}

std::vector<std::string> spellings(const std::string& name) {
  std::vector<std::string> out = {name};
  for (std::size_t i = 1; i + 1 < name.size(); ++i) {
    if (name[i] == '_' && is_digit(name[i - 1]) && is_digit(name[i + 1])) {
      const std::size_t known = out.size();
      for (std::size_t k = 0; k < known && known < 16; ++k) {
        out.push_back(out[k]);
        out.back()[i] = '.';
      }
    }
  }
  return out;
}

const std::vector<Rule>& common_rules() {
  static const std::vector<Rule> rules = {{"model-config", "model", named_model}};
  return rules;
}

}  // namespace stepcast::interop::launch
