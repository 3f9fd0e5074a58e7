// Reads one JSON object of a measurement file key by key. Faults are collected and nothing is
// thrown.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/terms/number_format.h"
#include "stepcast/text/document.h"

namespace stepcast::interop {

inline constexpr std::int64_t kMaxBytes = std::int64_t{1} << 50;  // beyond what any kernel moves
inline constexpr std::int64_t kMaxGpus = 1 << 20;

std::string listed(const auto& words) { return fmt::format("{}", fmt::join(words, ", ")); }

// Each key is read once; a key that was not read is a fault. A faulty value reads as a
// harmless one; `good` says whether there were faults.
class Record {
 public:
  Record(const text::Value& value, std::string what, std::vector<Fault>& faults)
      : value_(value), what_(std::move(what)), faults_(faults) {}

  bool has(const char* key) const { return value_.find(key) != nullptr; }
  const text::Value* get(const char* key, bool needed = true);

  std::string text(const char* key, bool may_be_empty = false);
  // The index of the key's value in `words`; 0 where it is none of them.
  template <std::size_t N>
  std::size_t choice(const char* key, const std::array<std::string_view, N>& words) {
    const text::Value* v = get(key);
    if (v == nullptr) {
      return 0;
    }
    const auto at = v->kind == text::Value::Kind::scalar && v->quoted
                        ? std::find(words.begin(), words.end(), v->scalar)
                        : words.end();
    if (at == words.end()) {
      fault(v->origin,
            fmt::format("{} is '{}'; expected one of {}", key, v->scalar, listed(words)));
      return 0;
    }
    return static_cast<std::size_t>(at - words.begin());
  }
  DType dtype();
  std::int64_t whole(const char* key, std::int64_t least, std::int64_t most);
  std::int64_t whole_or(const char* key, std::int64_t otherwise, std::int64_t most);
  int count(const char* key, std::int64_t most) { return static_cast<int>(whole(key, 1, most)); }
  double number(const char* key, bool needed = true);  // 0 or above
  double seconds(const char* key);                     // above 0
  bool flag(const char* key, bool needed = true);

  void close();  // reports keys that were not read

  void fault(const Origin& where, std::string message);
  bool good() const { return good_; }
  void spoil() { good_ = false; }
  const Origin& origin() const { return value_.origin; }

 private:
  std::int64_t whole_of(const text::Value& v, const char* key, std::int64_t least,
                        std::int64_t most);
  double number_of(const text::Value& v, const char* key, double least, double most);

  const text::Value& value_;
  std::string what_;
  std::vector<Fault>& faults_;
  std::vector<std::string> known_;
  bool good_ = true;
};

}  // namespace stepcast::interop
