// A view of a row's JSON that answers "null" for everything that is not there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "stepcast/text/document.h"

namespace stepcast::interop {

class Fields {
 public:
  explicit Fields(const text::Value* value) : value_(value) {}
  Fields operator[](std::string_view key) const {
    return Fields(value_ != nullptr && value_->kind == text::Value::Kind::map ? value_->find(key)
                                                                              : nullptr);
  }
  bool present() const { return value_ != nullptr && value_->kind != text::Value::Kind::null; }
  bool is_map() const { return present() && value_->kind == text::Value::Kind::map; }
  bool is_text() const {
    return present() && value_->kind == text::Value::Kind::scalar && value_->quoted;
  }
  const text::Value* value() const { return value_; }

  // Nothing when absent or null; InputError when it is of another type.
  std::optional<std::int64_t> integer() const {
    return present() ? std::optional(text::to_integer(*value_)) : std::nullopt;
  }
  std::optional<double> number() const {
    return present() ? std::optional(text::to_number(*value_)) : std::nullopt;
  }
  std::optional<bool> flag() const {
    return present() ? std::optional(text::to_bool(*value_)) : std::nullopt;
  }
  // "" when absent, null, or structured.
  std::string text() const {
    return present() && value_->kind == text::Value::Kind::scalar ? value_->scalar : "";
  }

  std::int64_t integer_or(std::int64_t otherwise) const { return integer().value_or(otherwise); }
  bool is_true() const { return present() && value_->scalar == "true"; }

 private:
  const text::Value* value_;
};

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace stepcast::interop
