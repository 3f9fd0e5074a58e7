// The cells of a row of a CSV table by the name of their column; what is wrong with them is
// collected, a fault a cell, with the line.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/text/document.h"

namespace stepcast::text {

// The whole text as a number; nullopt where anything else stands in it.
template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

// A name in small letters, with a dash for each dash, underscore and space; other marks are left
// out.
std::string plain(std::string_view name);

class Cells {
 public:
  // Faults beyond the twentieth are not kept: a table of another kind is wrong in every row.
  static constexpr std::size_t kMaxFaults = 20;
  static constexpr std::int64_t kLargestSize = std::int64_t{1} << 31;

  Cells(const Table& table, std::size_t row, std::vector<Fault>& faults) : table_(&table), row_(row), faults_(&faults) {}

  int line() const { return static_cast<int>(row_) + 2; }
  bool has(const char* column) const { return table_->column(column) >= 0; }
  const std::string& text(const char* column) const;
  // 1 to `most`, else a fault and 1.
  std::int64_t size(const char* column, std::int64_t most = kLargestSize);
  // Above 0, to `most`; else a fault and 1.
  double positive(const char* column, double most);
  void fault(std::string message);
  bool good() const { return good_; }  // no fault so far

 private:
  const Table* table_;
  std::size_t row_;
  std::vector<Fault>* faults_;
  bool good_ = true;
};

}  // namespace stepcast::text
