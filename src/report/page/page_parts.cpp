#include "page_parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "../text/format.h"

namespace stepcast::report {

Cell markup_cell(std::string markup) {
  Cell cell(std::move(markup));
  cell.markup = true;
  return cell;
}

std::string between(const result::Estimate& e) {
  return fmt::format("{} to {}", duration(e.low), duration(e.high));
}

Tile interval_tile(std::string name, std::string value, std::string range, std::string figure,
                   const result::Estimate& e) {
  return {std::move(name),
          std::move(value),
          std::move(range),
          std::move(figure),
          {e.value, e.low, e.high}};
}

Tile number_tile(std::string name, std::string value, std::string remark, std::string figure,
                 double number, Tile::Tone tone) {
  return {std::move(name), std::move(value), std::move(remark), std::move(figure), {number}, tone};
}

Part time_part(const char* colour, const char* name, double seconds, double whole) {
  const std::string share = whole > 0 ? ", " + percent(seconds / whole) : "";
  return {colour, seconds, fmt::format("{}: {}{}", name, duration(seconds), share)};
}

std::vector<Part> strategy_parts(const result::Strategy& s, bool with_shares) {
  const double whole = with_shares ? s.step_time.value : 0;
  const auto part = [&](const char* colour, const char* name, Time t) {
    return time_part(colour, name, to_seconds(t), whole);
  };
  return {part("compute", "compute", s.compute), part("recompute", "recompute", s.recompute),
          part("tensor", "exposed communication", s.exposed), part("other", "other", s.other),
          part("bubble", "bubble", s.bubble)};
}

const std::vector<Mark>& strategy_marks() {
  static const std::vector<Mark> marks = {{"compute", "compute", ""},
                                          {"recompute", "recompute", ""},
                                          {"tensor", "exposed communication", ""},
                                          {"other", "other", ""},
                                          {"bubble", "bubble", ""}};
  return marks;
}

std::string strategy_options(const std::vector<std::string>& overrides) {
  return "<pre class=\"fold\" tabindex=\"0\">" + html_text(set_options(overrides)) + "</pre>\n";
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

OverrideColumns::OverrideColumns(const std::vector<std::vector<std::string>>& rows,
                                 bool first_row) {
  for (const auto& row : rows) {
    for (const std::string& one : row) {
      const std::string key = parted(one).first;
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
        keys.push_back(key);
      }
    }
    if (first_row) {
      break;
    }
  }
  for (std::size_t k = 0; k < keys.size() && (first_row || rows.size() > 1);) {
    const std::string first = value(rows.front(), k);
    const bool same = std::all_of(rows.begin(), rows.end(),
                                  [&](const auto& row) { return value(row, k) == first; });
    if (same && (first_row || !first.empty())) {
      alike.push_back(keys[k] + "=" + first);
      keys.erase(keys.begin() + static_cast<std::ptrdiff_t>(k));
    } else {
      ++k;
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
