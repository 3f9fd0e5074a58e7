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

  // Nothing when absent or null; InputError when it is of another type, or beyond what a row can
  // mean (so that products of a few stay whole numbers).
  std::optional<std::int64_t> integer() const { return within(-kMaxOfAnything, kMaxOfAnything); }
  // Of ranks, stages, sequences: at least one.
  std::optional<std::int64_t> count() const { return within(1, kMaxOfThem); }
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
  std::int64_t count_or(std::int64_t otherwise) const { return count().value_or(otherwise); }
  bool is_true() const { return present() && value_->scalar == "true"; }

 private:
  static constexpr std::int64_t kMaxOfAnything = 1'000'000'000;
  static constexpr std::int64_t kMaxOfThem = 1'000'000;

  std::optional<std::int64_t> within(std::int64_t least, std::int64_t most) const {
    if (!present()) {
      return std::nullopt;
    }
    const std::int64_t n = text::to_integer(*value_);
    if (n < least || n > most) {
      throw InputError(Fault{value_->origin, std::to_string(n) + " is out of range; expected " +
                                                 std::to_string(least) + " to " +
                                                 std::to_string(most)});
    }
    return n;
  }

  const text::Value* value_;
};

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace stepcast::interop
