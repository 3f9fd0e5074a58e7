// Reads strict JSON (RFC 8259) with the line and column of every value. No library at hand does
// that at the speed needed: nlohmann-json does not report where values are (its SAX interface does
// not either), and yaml-cpp does but accepts much that is not JSON and reads only 1.8 MB/s, while
// files of published rows have megabytes. A test compares this reader with nlohmann-json.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "files.h"
#include "stepcast/text/document.h"

namespace stepcast::text {
namespace {

class Reader {
 public:
  Reader(std::string_view text, const std::string& name, int first_line)
      : text_(text), name_(name), line_(first_line) {}

  Value document() {
    Value v = value(0);
    skip_blanks();
    if (at_ < text_.size()) {
      fail(here(), "text follows the value; expected the end");
    }
    return v;
  }

 private:
  Origin here() const { return {name_, line_, static_cast<int>(at_ - line_start_) + 1}; }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  [[noreturn]] void malformed(std::string_view expected) const {
    if (at_ >= text_.size()) {
      fail(here(), fmt::format("malformed JSON: the text ends; expected {}", expected));
    }
    const auto c = static_cast<unsigned char>(text_[at_]);
    fail(here(),
         c > 0x20 && c < 0x7F
             ? fmt::format("malformed JSON: found '{}'; expected {}", text_[at_], expected)
             : fmt::format("malformed JSON: found byte 0x{:02x}; expected {}", c, expected));
  }

  void skip_blanks() {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') {
        ++line_;
        line_start_ = at_ + 1;
      } else if (c != ' ' && c != '\t' && c != '\r') {
        return;
      }
    }
  }

  void expect(char c, std::string_view expected) {
    if (peek() != c) {
      malformed(expected);
    }
    ++at_;
  }

  Value value(int depth) {
    skip_blanks();
    Value v;
    v.origin = here();
    switch (peek()) {
      case '{':
        map(v, depth);
        return v;
      case '[':
        sequence(v, depth);
        return v;
      case '"':
        v.kind = Value::Kind::scalar;
        v.quoted = true;
        v.scalar = string();
        return v;
      default:
        word(v);
        return v;
    }
  }

  void enter(int depth) {
    if (depth >= kDepthLimit) {
      fail(here(), fmt::format("is nested too deeply; expected at most {} levels", kDepthLimit));
    }
    ++at_;
    skip_blanks();
  }

  void map(Value& v, int depth) {
    v.kind = Value::Kind::map;
    enter(depth);
    if (peek() == '}') {
      ++at_;
      return;
    }
    while (true) {
      skip_blanks();
      Origin origin = here();
      if (peek() != '"') {
        malformed("a key in double quotes");
      }
      std::string key = string();
      skip_blanks();
      expect(':', "':' after the key");
      v.entries.push_back({std::move(key), std::move(origin), value(depth + 1)});
      skip_blanks();
      if (peek() == '}') {
        ++at_;
        break;
      }
      expect(',', "',' or '}'");
    }
    check_unique(v);
  }

  // Keys are sorted to find duplicates: maps are usually small, but a hostile one must not cost
  // quadratic time.
  static void check_unique(const Value& v) {
    std::vector<const Value::Entry*> sorted;
    sorted.reserve(v.entries.size());
    for (const Value::Entry& entry : v.entries) {
      sorted.push_back(&entry);
    }
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto* a, const auto* b) { return a->key < b->key; });
    for (std::size_t i = 1; i < sorted.size(); ++i) {
      if (sorted[i]->key == sorted[i - 1]->key) {
        fail(sorted[i]->origin,
             fmt::format("duplicate key '{}'; expected it once (first at line {})", sorted[i]->key,
                         sorted[i - 1]->origin.line));
      }
    }
  }

  void sequence(Value& v, int depth) {
    v.kind = Value::Kind::sequence;
    enter(depth);
    if (peek() == ']') {
      ++at_;
      return;
    }
    while (true) {
      v.items.push_back(value(depth + 1));
      skip_blanks();
      if (peek() == ']') {
        ++at_;
        return;
      }
      expect(',', "',' or ']'");
    }
  }

  std::string string() {
    ++at_;
    std::string result;
    while (true) {
      const std::size_t run = at_;
      while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
             static_cast<unsigned char>(text_[at_]) >= 0x20) {
        ++at_;
      }
      result.append(text_, run, at_ - run);
      if (peek() == '"') {
        ++at_;
        return result;
      }
      if (peek() != '\\') {
        malformed("'\"' at the string's end");
      }
      ++at_;
      escape(result);
    }
  }

  void escape(std::string& result) {
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    if (const auto i = kNames.find(peek()); i != std::string_view::npos) {
      result += kMeanings[i];
      ++at_;
      return;
    }
    if (peek() != 'u') {
      malformed("one of \"\\/bfnrtu after '\\'");
    }
    ++at_;
    unsigned code = four_hex_digits();
    if (code >= 0xD800 && code < 0xDC00 && text_.substr(at_, 2) == "\\u") {
      at_ += 2;
      const unsigned low = four_hex_digits();
      code = low >= 0xDC00 && low < 0xE000 ? 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
                                           : 0xDC00;
    }
    if (code >= 0xD800 && code < 0xE000) {
      fail(here(), "malformed JSON: half a surrogate pair; expected both halves");
    }
    append_utf8(result, code);
  }

  unsigned four_hex_digits() {
    unsigned code = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = peek();
      const bool digit = c >= '0' && c <= '9';
      const char lower = static_cast<char>(c | 0x20);
      if (!digit && !(lower >= 'a' && lower <= 'f')) {
        malformed("four hexadecimal digits after '\\u'");
      }
      code = code * 16 + static_cast<unsigned>(digit ? c - '0' : lower - 'a' + 10);
    }
    return code;
  }

  static void append_utf8(std::string& s, unsigned code) {
    const auto byte = [&](unsigned b) { s += static_cast<char>(b); };
    if (code < 0x80) {
      byte(code);
    } else if (code < 0x800) {
      byte(0xC0 | (code >> 6));
      byte(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
      byte(0xE0 | (code >> 12));
      byte(0x80 | ((code >> 6) & 0x3F));
      byte(0x80 | (code & 0x3F));
    } else {
      byte(0xF0 | (code >> 18));
      byte(0x80 | ((code >> 12) & 0x3F));
      byte(0x80 | ((code >> 6) & 0x3F));
      byte(0x80 | (code & 0x3F));
    }
  }

  void digits() {
    const std::size_t first = at_;
    while (peek() >= '0' && peek() <= '9') {
      ++at_;
    }
    if (at_ == first) {
      malformed("a digit");
    }
  }

  // Reads a number, true, false or null and keeps its text. Infinity and NaN, which Python's json
  // module writes into published config.json files, are kept as well: the fault is reported only to
  // a caller that reads such a number, and not where the key is ignored.
  void word(Value& v) {
    const std::size_t first = at_;
    v.kind = Value::Kind::scalar;
    for (const std::string_view name : {"true", "false", "null", "NaN", "Infinity", "-Infinity"}) {
      if (text_.substr(at_, name.size()) == name) {
        at_ += name.size();
        if (name == "null") {
          v.kind = Value::Kind::null;
        } else {
          v.scalar = name;
        }
        return;
      }
    }
    if (peek() != '-' && !(peek() >= '0' && peek() <= '9')) {
      malformed("a value");
    }
    if (peek() == '-') {
      ++at_;
    }
    if (peek() == '0') {
      ++at_;
      if (peek() >= '0' && peek() <= '9') {
        malformed("a number without leading zeros");
      }
    } else {
      digits();
    }
    if (peek() == '.') {
      ++at_;
      digits();
    }
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      if (peek() == '+' || peek() == '-') {
        ++at_;
      }
      digits();
    }
    v.scalar = text_.substr(first, at_ - first);
  }

  std::string_view text_;
  const std::string& name_;
  int line_;
  std::size_t at_ = 0;
  std::size_t line_start_ = 0;
};

}  // namespace

Value parse_json(std::string_view text, const std::string& name) {
  check_is_text(text, name);
  return Reader(text, name, 1).document();
}

Value read_json(const std::filesystem::path& file, std::size_t most) {
  return parse_json(read_file(file, most), file.string());
}

std::vector<Value> read_json_lines(const std::filesystem::path& file) {
  return parse_json_lines(read_file(file), file.string());
}

std::vector<Value> parse_json_lines(std::string_view text, const std::string& name) {
  check_is_text(text, name);
  std::vector<Value> rows;
  int line = 1;
  for (std::size_t at = 0; at < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view row = text.substr(at, end - at);
    if (row.find_first_not_of(" \t\r") != std::string_view::npos) {
      rows.push_back(Reader(row, name, line).document());
    }
    at = end + 1;
  }
  return rows;
}

}  // namespace stepcast::text
