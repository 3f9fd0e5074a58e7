#include "rule.h"

#include <string>

namespace stepcast::interop::launch {

void yes(Draft& draft, const Setting& setting, std::string_view key) {
  draft.set(setting, key, is_true(setting));
}

void no(Draft& draft, const Setting& setting, std::string_view key) {
  draft.set(setting, key, !is_true(setting));
}

bool of_document(const Setting& setting) {
  const std::string& file = setting.origin.file;
  return file.ends_with(".yaml") || file.ends_with(".yml") || file.ends_with(".toml") ||
         file.ends_with(".json");
}

void later(Draft&, const Setting&, std::string_view) {}

void number_format(Draft& draft, const Setting& setting, std::string_view key) {
  const std::string name = plain_text(setting.value);
  draft.set(setting, key,
            name == "float32" || name == "full"     ? std::string_view("fp32")
            : name == "bfloat16" || name == "bfp16" ? std::string_view("bf16")
            : name == "float16"                     ? std::string_view("fp16")
                                                    : std::string_view(name));
}

void mebibytes(Draft& draft, const Setting& setting, std::string_view key) {
  draft.set(setting, key, std::string_view(plain_text(setting.value) + " MiB"));
}

void unmodelled_if_true(Draft& draft, const Setting& setting, std::string_view why) {
  if (is_true(setting)) {
    draft.unmodelled(setting, why);
  } else {
    draft.meaningless(setting, "off");
  }
}

}  // namespace stepcast::interop::launch
