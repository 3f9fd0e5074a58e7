// Reads TOML with toml++, which reports where every key and value is (toml11 3.7 does not for
// keys).
#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <sstream>
#include <tuple>

#include "files.h"
#include "stepcast/text/document.h"

namespace stepcast::text {
namespace {

class Converter {
 public:
  explicit Converter(const std::string& name) : name_(name) {}

  Value document(const toml::table& table) const {
    Value v = map(table, 0);
    v.origin = {name_, 1, 1};
    return v;
  }

 private:
  Origin at(const toml::source_region& region) const {
    return {name_, static_cast<int>(region.begin.line), static_cast<int>(region.begin.column)};
  }

  Value value(const toml::node& node, int depth) const {
    if (depth > kDepthLimit) {
      fail(at(node.source()),
           fmt::format("is nested too deeply; expected at most {} levels", kDepthLimit));
    }
    if (const toml::table* table = node.as_table()) {
      return map(*table, depth);
    }
    Value v;
    v.origin = at(node.source());
    if (const toml::array* array = node.as_array()) {
      v.kind = Value::Kind::sequence;
      for (const toml::node& item : *array) {
        v.items.push_back(value(item, depth + 1));
      }
      return v;
    }
    v.kind = Value::Kind::scalar;
    if (const auto* text = node.as_string()) {
      v.scalar = text->get();
      v.quoted = true;
    } else if (const auto* integer = node.as_integer()) {
      v.scalar = fmt::format("{}", integer->get());
    } else if (const auto* number = node.as_floating_point()) {
      v.scalar = fmt::format("{}", number->get());
    } else if (const auto* truth = node.as_boolean()) {
      v.scalar = truth->get() ? "true" : "false";
    } else {
      std::ostringstream date;
      node.visit([&](const auto& n) {
        if constexpr (toml::is_date<decltype(n)> || toml::is_time<decltype(n)> ||
                      toml::is_date_time<decltype(n)>) {
          date << n.get();
        }
      });
      v.scalar = date.str();
      v.quoted = true;
    }
    return v;
  }

  // toml++ sorts keys by name; this restores the order of the text.
  Value map(const toml::table& table, int depth) const {
    Value v;
    v.kind = Value::Kind::map;
    v.origin = at(table.source());
    for (const auto& [key, node] : table) {
      v.entries.push_back({std::string(key.str()), at(key.source()), value(node, depth + 1)});
    }
    std::stable_sort(v.entries.begin(), v.entries.end(),
                     [](const Value::Entry& a, const Value::Entry& b) {
                       return std::tie(a.origin.line, a.origin.column) <
                              std::tie(b.origin.line, b.origin.column);
                     });
    return v;
  }

  const std::string& name_;
};

// toml++ makes a table of every part of a dotted key, and destroys them one inside the other: the
// limit of nesting has to hold before it reads. A value has one dot at most, and dots in strings
// and comments are no parts.
void check_dotted_keys(std::string_view text, const std::string& name) {
  int dots = 0;
  int line = 1;
  std::size_t line_start = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\n') {
      ++line;
      line_start = at + 1;
      dots = 0;
    } else if (c == '#') {
      at = std::min(text.find('\n', at), text.size()) - 1;
    } else if (c == '"' || c == '\'') {
      const bool whole = text.substr(at, 3) == std::string(3, c);
      for (at += whole ? 3 : 1; at < text.size(); ++at) {
        if (text[at] == '\n') {
          if (!whole) {
            --at;  // unterminated: toml++ reports it
            break;
          }
          ++line;
          line_start = at + 1;
        } else if (text[at] == '\\' && c == '"') {
          ++at;
        } else if (text[at] == c && (!whole || text.substr(at, 3) == std::string(3, c))) {
          at += whole ? 2 : 0;
          break;
        }
      }
    } else if (c == '.') {
      if (++dots > kDepthLimit) {
        fail({name, line, static_cast<int>(at - line_start) + 1},
             fmt::format("is nested too deeply; expected at most {} levels", kDepthLimit));
      }
    } else if (c == '=' || c == ',' || c == '[' || c == ']' || c == '{' || c == '}') {
      dots = 0;
    }
  }
}

}  // namespace

Value parse_toml(std::string_view text, const std::string& name) {
  check_is_text(text, name);
  check_dotted_keys(text, name);
  try {
    return Converter(name).document(toml::parse(text));
  } catch (const toml::parse_error& error) {
    const auto where = error.source().begin;
    fail({name, static_cast<int>(where.line), static_cast<int>(where.column)},
         fmt::format("malformed TOML: {}", error.description()));
  }
}

Value read_toml(const std::filesystem::path& file) {
  return parse_toml(read_file(file), file.string());
}

std::string read_text(const std::filesystem::path& file) {
  std::string text = read_file(file);
  check_is_text(text, file.string());
  return text;
}

}  // namespace stepcast::text
