// A row is recognised by its own shape, since launchers prefix lines ("0:", "[1,0]<stdout>:",
// "[STAT]:") and documents indent them:
//   size count type [redop] [root] time algbw busbw wrong [time algbw busbw wrong] [date time]
// Versions differ in redop and root (2019: no root; 2020: no redop for all_gather) and in the name
// of the last column (error, #wrong).
#include "nccl_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "stepcast/interop/nccl_log.h"

namespace stepcast::interop {
namespace {

// nccl-tests' names of element types and their bytes (src/common.cu, all versions).
struct ElementType {
  std::string_view name;
  int bytes = 0;
};
constexpr std::array<ElementType, 19> kTypes = {{
    {"int8", 1},     {"uint8", 1},  {"char", 1},    {"int32", 4},    {"int", 4},
    {"uint32", 4},   {"int64", 8},  {"uint64", 8},  {"half", 2},     {"float", 4},
    {"double", 8},   {"f8e4m3", 1}, {"f8e5m2", 1},  {"fp8_e4m3", 1}, {"fp8_e5m2", 1},
    {"bfloat16", 2}, {"bf16", 2},   {"float16", 2}, {"float32", 4},
}};

bool is_operator(std::string_view word) {
  constexpr std::array<std::string_view, 8> kKnown = {"sum", "prod",   "max",  "min",
                                                      "avg", "mulsum", "none", "all"};
  return std::find(kKnown.begin(), kKnown.end(), word) != kKnown.end();
}

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The word after a launcher's prefix: the size in "[1,0]<stdout>:8" and "[STAT]:393216".
std::string_view behind_prefix(std::string_view word) {
  const std::size_t colon = word.rfind(':');
  return colon == std::string_view::npos ? word : word.substr(colon + 1);
}

bool is_header(const Words& w) {
  for (std::size_t i = 0; i + 3 < w.size(); ++i) {
    const std::string_view first = behind_prefix(w[i]);
    if ((first == "size" || first == "#size") && w[i + 1] == "count" && w[i + 2] == "type") {
      return std::any_of(w.begin(), w.end(),
                         [](std::string_view x) { return x == "time" || x == "cputime"; });
    }
  }
  return false;
}

Columns columns_of(const Words& w) {
  Columns c;
  c.redop = std::find(w.begin(), w.end(), "redop") != w.end();
  c.halves = std::count(w.begin(), w.end(), "busbw") > 1 ? 2 : 1;
  c.cpu_time = std::find(w.begin(), w.end(), "cputime") != w.end();
  return c;
}

// Reads the last column of a half: a count, a deviation, or N/A.
bool wrong_field(std::string_view word, std::optional<double>& value) {
  if (word == "N/A") {
    return true;
  }
  value = number<double>(word);
  const bool good = value.has_value();
  if (good && !std::isfinite(*value)) {
    value.reset();  // NaN: nothing was compared
  }
  return good;
}

// "2026-01-28"
bool is_date(std::string_view word) {
  return word.size() == 10 && word[4] == '-' && word[7] == '-' &&
         std::all_of(word.begin(), word.end(), [](char c) { return is_digit(c) || c == '-'; });
}

// Whether algbw contradicts size and time. Early versions printed algbw with the collective's
// factor of (n - 1) / n, which is at least a half.
bool contradicts(double bytes, double microseconds, double algorithm) {
  constexpr double kMinFactor = 0.4, kMaxFactor = 1.1;
  constexpr double kRounding = 0.02;  // GB/s: two decimals
  constexpr double kShort = 1;        // microseconds, below which the time has few digits
  if (microseconds < kShort || !std::isfinite(algorithm)) {
    return false;
  }
  const double rate = bytes / microseconds * 1e-3;
  return algorithm < kMinFactor * rate - kRounding || algorithm > kMaxFactor * rate + kRounding;
}

// Reads the columns after the type; false: the row is cut short.
bool read_fields(const Words& w, std::size_t at, std::size_t halves, Row& row, std::string& why) {
  if (at < w.size() && is_operator(w[at])) {
    row.redop = w[at++];
  }
  std::size_t left = w.size() - at;
  if (left >= 4 * halves + 2 && is_date(w[w.size() - 2])) {  // --report_timestamps
    row.date = w[w.size() - 2];
    left -= 2;
  }
  if (left == 4 * halves + 1) {
    row.root = number<int>(w[at++]);
    if (!row.root) {
      return false;
    }
  } else if (left != 4 * halves) {
    return false;
  }
  for (std::size_t h = 0; h < halves; ++h) {
    const std::size_t first = at + 4 * h;
    if (h == 1 && std::all_of(w.begin() + static_cast<std::ptrdiff_t>(first),
                              w.begin() + static_cast<std::ptrdiff_t>(first) + 4,
                              [](std::string_view word) { return word == "N/A"; })) {
      break;  // not run in place
    }
    const auto time = number<double>(w[first]);
    const auto algorithm = number<double>(w[first + 1]);
    const auto bus = number<double>(w[first + 2]);
    if (!time || !algorithm || !bus || !wrong_field(w[first + 3], row.wrong[h]) ||
        !std::isfinite(*time) || *time < 0 || *time > kLongestMicroseconds) {
      return false;
    }
    if (contradicts(static_cast<double>(row.size), *time, *algorithm)) {
      why = fmt::format("the row contradicts itself: {} bytes in {} us are not {} GB/s", row.size,
                        w[first], w[first + 1]);
      return false;
    }
    row.microseconds[h] = *time;
    const bool unchecked = w[first + 3] == "N/A";
    if (h == 0) {
      row.bus_bandwidth = *bus;
      row.unchecked = unchecked;
    } else {
      row.has_in_place = true;
      row.in_place_unchecked = unchecked && !row.unchecked;
    }
  }
  return true;
}

}  // namespace

std::optional<int> element_bytes(std::string_view type) {
  const auto* found = std::find_if(kTypes.begin(), kTypes.end(),
                                   [&](const auto& known) { return known.name == type; });
  return found == kTypes.end() ? std::nullopt : std::optional(found->bytes);
}

Words words(std::string_view line) {
  Words out;
  std::size_t at = 0;
  while (at < line.size()) {
    while (at < line.size() && is_space(line[at])) {
      ++at;
    }
    const std::size_t begin = at;
    while (at < line.size() && !is_space(line[at])) {
      ++at;
    }
    if (at > begin) {
      out.push_back(line.substr(begin, at - begin));
    }
  }
  return out;
}

std::string without_escapes(std::string_view line) {
  constexpr char kEscape = 0x1b;
  std::string out;
  out.reserve(line.size());
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != kEscape) {
      out += line[i];
      continue;
    }
    if (i + 1 < line.size() && line[i + 1] == '[') {
      // ECMA-48: parameters 0x30..0x3f, intermediates 0x20..0x2f, one final byte.
      i += 2;
      while (i < line.size() && line[i] >= 0x20 && line[i] < 0x40) {
        ++i;
      }
    } else {
      ++i;
    }
  }
  return out;
}

std::optional<std::string> before_message(std::string_view text) {
  const std::size_t nccl = text.find("NCCL ");
  if (nccl == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view level = text.substr(nccl + 5, 4);
  if (level != "INFO" && level != "WARN" && level != "TRAC" && level != "CALL") {
    return std::nullopt;
  }
  // "host:pid:tid", printed right after something else: "-1host:12:34" or "0host:12:34".
  for (const std::string_view word : words(text.substr(0, nccl))) {
    const std::size_t last = word.rfind(':');
    const std::size_t middle = last == 0 || last == std::string_view::npos
                                   ? std::string_view::npos
                                   : word.rfind(':', last - 1);
    if (middle == std::string_view::npos || !number<std::int64_t>(word.substr(last + 1)) ||
        !number<std::int64_t>(word.substr(middle + 1, last - middle - 1))) {
      continue;
    }
    std::size_t glued = 0;
    if (word.starts_with("N/A")) {
      glued = 3;
    } else if (word.starts_with("-1")) {
      glued = 2;  // "-1" is the root of operations without a root; a host may begin with digits
    } else {
      while (glued < word.size() && is_digit(word[glued])) {
        ++glued;
      }
    }
    const auto at = static_cast<std::size_t>(word.data() - text.data());
    return std::string(text.substr(0, at + glued));
  }
  return std::string();
}

Line read_line(std::string_view text, bool in_table, std::size_t halves) {
  Line out;
  const Words w = words(text);
  if (is_header(w)) {
    out.kind = Kind::header;
    out.columns = columns_of(w);
    return out;
  }
  if (std::find(w.begin(), w.end(), "#") != w.end()) {
    return out;
  }
  constexpr std::size_t kMaxPrefixes = 4;
  for (std::size_t i = 0; i + 1 < w.size() && i < kMaxPrefixes; ++i) {
    const auto size = number<std::int64_t>(i == 0 ? behind_prefix(w[i]) : w[i]);
    const auto count = number<std::int64_t>(w[i + 1]);
    if (!size || !count || *size < 0 || *count < 0 || *size > kLargestSize) {
      continue;
    }
    if (i + 2 == w.size()) {
      out.kind = in_table ? Kind::cut : Kind::other;
      return out;
    }
    const auto element = element_bytes(w[i + 2]);
    if (!element) {
      // "4096 1024 flo" is the beginning of a row; prose has more words.
      out.kind = in_table && i + 3 == w.size() ? Kind::cut : Kind::other;
      return out;
    }
    out.row.size = *size;
    out.row.count = *count;
    out.row.type = w[i + 2];
    out.row.element = *element;
    const bool whole = read_fields(w, i + 3, halves, out.row, out.why);
    out.kind = whole ? Kind::row : Kind::cut;
    return out;
  }
  return out;
}

}  // namespace stepcast::interop
