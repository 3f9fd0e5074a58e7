// Reading tables of kernels: whose a row is, and its cells.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/config/config.h"
#include "stepcast/job/job.h"
#include "stepcast/text/document.h"

namespace stepcast::validate {

inline constexpr std::size_t kMostFaults = 20;
inline constexpr std::int64_t kLargestSize = std::int64_t{1} << 31;

// In small letters, with dashes for what parts words.
std::string plain(std::string_view name);
// NeuSight's and Vidur's names of operators by what reads and writes alike, as records have them.
std::string operator_named(const std::string& name);

// The `gpu` column against the device asked for. A name that configs/ does not know is believed to
// be it where the file has no other.
class Owner {
 public:
  Owner(const job::Device& device, const text::Table& table, int column) {
    std::set<std::string> names;
    for (const auto& row : table.rows) {
      names.insert(row[static_cast<std::size_t>(column)]);
    }
    const auto known = config::list("devices");
    for (const std::string& name : names) {
      ours_[name] = names.size() == 1;
      for (const std::string& stem : spellings(name)) {
        if (std::find(known.begin(), known.end(), stem) != known.end()) {
          ours_[name] = config::device(stem).name == device.name;
          break;
        }
      }
    }
  }
  bool ours(const std::string& name) const { return ours_.at(name); }

  // "NVIDIA H100 SXM" and "a100-sxm-80g" as configs/ would write them.
  static std::vector<std::string> spellings(const std::string& name) {
    std::string base = plain(name);
    if (base.starts_with("nvidia-")) {
      base.erase(0, 7);
    }
    std::vector<std::string> out{base};
    for (const std::string_view unit : {"gb", "g"}) {
      if (base.ends_with(unit)) {
        out.push_back(base.substr(0, base.size() - unit.size()));
      }
    }
    return out;
  }

 private:
  std::map<std::string, bool> ours_;
};

template <class T>
std::optional<T> number(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

// The cells of one row by column name; what is wrong is collected.
class Cells {
 public:
  Cells(const text::Table& table, std::size_t row, std::vector<Fault>& faults)
      : table_(table), row_(row), faults_(faults) {}

  bool has(const char* column) const { return table_.column(column) >= 0; }
  const std::string& text(const char* column) const {
    return table_.rows[row_][static_cast<std::size_t>(table_.column(column))];
  }
  std::int64_t size(const char* column, std::int64_t most = kLargestSize) {
    const auto value = number<std::int64_t>(text(column));
    if (!value || *value < 1 || *value > most) {
      fault(fmt::format("{} is '{}'; expected a whole number from 1", column, text(column)));
      return 1;
    }
    return *value;
  }
  double positive(const char* column, double most) {
    const auto value = number<double>(text(column));
    if (!value || !(*value > 0) || *value > most) {
      fault(fmt::format("{} is '{}'; expected a positive number", column, text(column)));
      return 1;
    }
    return *value;
  }
  void fault(std::string message) {
    good_ = false;
    if (faults_.size() < kMostFaults) {
      faults_.push_back({{table_.file, static_cast<int>(row_) + 2, 1}, std::move(message)});
    }
  }
  bool good() const { return good_; }

 private:
  const text::Table& table_;
  std::size_t row_;
  std::vector<Fault>& faults_;
  bool good_ = true;
};

}  // namespace stepcast::validate
