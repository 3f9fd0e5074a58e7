#include "page_parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "format.h"

namespace stepcast::report {

Column text_column(const char* name, const char* hint) { return {name, Column::Kind::text, hint}; }
Column prose_column(const char* name) { return {name, Column::Kind::prose, ""}; }
Column number_column(const char* name, const char* hint) {
  return {name, Column::Kind::number, hint};
}
Column bar_column(const char* name) { return {name, Column::Kind::bar, ""}; }

Cell seconds_cell(double seconds) { return {duration(seconds), seconds}; }
Cell percent_cell(double fraction) { return {percent(fraction), fraction}; }
Cell change_cell(double fraction) { return {fmt::format("{:+.1f} %", 100 * fraction), fraction}; }
Cell gib_cell(double bytes) { return {gibibytes(bytes), bytes}; }
Cell count_cell(std::int64_t count) { return {thousands(count), static_cast<double>(count)}; }
Cell markup_cell(std::string markup) {
  Cell cell(std::move(markup));
  cell.markup = true;
  return cell;
}

std::string between(const result::Estimate& e) {
  return fmt::format("{} to {}", duration(e.low), duration(e.high));
}

namespace {

std::pair<std::string, std::string> parted(const std::string& override) {
  const std::size_t equals = std::min(override.find('='), override.size());
  return {override.substr(0, equals),
          equals < override.size() ? override.substr(equals + 1) : std::string()};
}

}  // namespace

std::string OverrideColumns::value(const std::vector<std::string>& row, std::size_t key) const {
  for (const std::string& one : row) {
    if (const auto [k, v] = parted(one); k == keys[key]) {
      return v;
    }
  }
  return "";
}

OverrideColumns::OverrideColumns(const std::vector<std::vector<std::string>>& rows) {
  for (const auto& row : rows) {
    for (const std::string& one : row) {
      const std::string key = parted(one).first;
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
        keys.push_back(key);
      }
    }
  }
  if (rows.size() > 1) {
    for (std::size_t k = 0; k < keys.size();) {
      const std::string first = value(rows.front(), k);
      if (!first.empty() && std::all_of(rows.begin(), rows.end(),
                                        [&](const auto& row) { return value(row, k) == first; })) {
        alike.push_back(keys[k] + "=" + first);
        keys.erase(keys.begin() + static_cast<std::ptrdiff_t>(k));
      } else {
        ++k;
      }
    }
  }
  const auto last_word = [](const std::string& key) { return key.substr(key.rfind('.') + 1); };
  for (const std::string& key : keys) {
    const bool twice = std::count_if(keys.begin(), keys.end(), [&](const std::string& other) {
                         return last_word(other) == last_word(key);
                       }) > 1;
    names.push_back(twice ? key : last_word(key));
  }
}

std::string set_options(const std::vector<std::string>& overrides) {
  std::string out;
  for (const std::string& one : overrides) {
    const bool plain =
        one.find_first_not_of(
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,:=+/@%-") ==
        std::string::npos;
    std::string quoted;
    for (const char c : one) {
      quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    out += (out.empty() ? "--set " : " --set ") + (plain ? one : "'" + quoted + "'");
  }
  return out;
}

std::string interval_bar(const std::vector<Part>& parts, double low, double high, double most) {
  constexpr double kWidth = 1000;
  std::string out = bar(parts, most);
  constexpr std::string_view kEnd = "</svg>";
  out.resize(out.size() - kEnd.size());
  const auto at = [&](double v) {
    return most > 0 ? std::clamp(v / most * kWidth, 0.0, kWidth) : 0.0;
  };
  return out +
         fmt::format("<path class=\"mark\" d=\"M{0:.1f} 5H{1:.1f}M{0:.1f} 2V8M{1:.1f} 2V8\"/>",
                     at(low), at(high)) +
         std::string(kEnd);
}

}  // namespace stepcast::report
