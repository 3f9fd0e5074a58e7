// Writes records as JSON text without a library, so that every byte is defined here: integer
// picoseconds become seconds with exactly 12 decimals, other numbers the shortest text that reads
// back the same, and keys keep their order.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "value.h"

namespace stepcast::report {
namespace {

std::string quoted_json(std::string_view text) {
  // File names and provenance may contain any byte: invalid UTF-8 is replaced and never throws.
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  const auto last = text.find_last_not_of(" \t\r\n");
  return first == std::string_view::npos ? std::string()
                                         : std::string(text.substr(first, last - first + 1));
}

// Writes one value at a time. A container on one line has all its contents on that line.
class JsonText {
 public:
  std::string text;

  void operator()(const std::monostate&) { text += "null"; }
  void operator()(bool v) { text += v ? "true" : "false"; }
  void operator()(std::int64_t v) { text += fmt::to_string(v); }
  void operator()(const std::string& v) { text += quoted_json(v); }
  void operator()(double v) {
    text += std::isfinite(v) ? fmt::format("{}", v == 0 ? 0.0 : v) : "null";  // no "-0"
  }
  void operator()(Seconds v) {
    text += std::isfinite(v.value) ? fmt::format("{:.12f}", v.value == 0 ? 0.0 : v.value) : "null";
  }
  void operator()(Time v) {
    constexpr std::uint64_t kSecond = 1'000'000'000'000;  // picoseconds
    const std::int64_t count = v.count();
    const std::uint64_t size = count < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(count)
                                         : static_cast<std::uint64_t>(count);
    text += fmt::format("{}{}.{:012}", count < 0 ? "-" : "", size / kSecond, size % kSecond);
  }
  void operator()(const Interval& v) {
    const result::Estimate& e = v.estimate;
    const auto one = [&](double x) { return v.seconds ? Value(Seconds{x}) : Value(x); };
    (*this)(Object{{{"value", one(e.value)}, {"low", one(e.low)}, {"high", one(e.high)}}, true});
  }
  void operator()(const Document& v) {
    const std::string body = trimmed(v.json);
    for (const char c : body.empty() ? "{}" : body) {
      text += c;
      if (c == '\n') {
        text.append(indent_, ' ');
      }
    }
  }
  void operator()(const List& v) {
    container('[', ']', v.size, v.one_line,
              [&](std::size_t i) { std::visit(*this, v.item(i).kind()); });
  }
  void operator()(const Object& v) {
    std::vector<const Field*> keyed;
    for (const Field& field : v.fields) {
      if (!field.key.empty()) {
        keyed.push_back(&field);
      }
    }
    container('{', '}', keyed.size(), v.one_line, [&](std::size_t i) {
      text += quoted_json(keyed[i]->key) + ": ";
      std::visit(*this, keyed[i]->value.kind());
    });
  }

 private:
  template <class Write>
  void container(char opening, char closing, std::size_t size, bool one_line, const Write& write) {
    const bool outer = one_line_;
    one_line_ = outer || one_line;
    const auto line_break = [&] {
      if (!one_line_) {
        text += '\n';
        text.append(indent_, ' ');
      }
    };
    text += opening;
    indent_ += 2;
    for (std::size_t i = 0; i < size; ++i) {
      if (i > 0) {
        text += one_line_ ? ", " : ",";
      }
      line_break();
      write(i);
    }
    indent_ -= 2;
    if (size > 0) {
      line_break();
    }
    text += closing;
    one_line_ = outer;
  }

  std::size_t indent_ = 0;
  bool one_line_ = false;
};

}  // namespace

std::string json_of(Record fields) {
  JsonText out;
  out(Object{std::move(fields), false});
  return std::move(out.text) + "\n";
}

}  // namespace stepcast::report
