// Typed views of scalars. yaml-cpp's own conversions are not used because they read 010 as 8 and
// refuse 15e12.
#include <fmt/format.h>

#include <stdexcept>

#include "files.h"
#include "stepcast/base/number.h"
#include "stepcast/base/quantity.h"
#include "stepcast/text/document.h"
#include "stepcast/text/map.h"

namespace stepcast::text {
namespace {

constexpr std::size_t kShown = 60;  // characters of a wrong value that a message quotes

std::string shown(const Value& v) {
  if (v.kind != Value::Kind::scalar) {
    return std::string(kind_in_words(v, "nothing"));
  }
  const bool cut = v.scalar.size() > kShown;
  const std::string_view text = std::string_view(v.scalar).substr(0, kShown);
  return fmt::format("{} '{}{}'", v.quoted ? "the text" : "the value", text, cut ? "..." : "");
}

[[noreturn]] void wrong_type(const Value& v, std::string_view expected) {
  fail(v.origin, fmt::format("{} is of the wrong type; expected {}", shown(v), expected));
}

// The parsers quote their whole argument in messages, so an argument of a megabyte is refused
// first.
constexpr std::size_t kLongestNumber = 400;

template <class Parse>
auto number(const Value& v, std::string_view expected, Parse parse) {
  if (v.kind != Value::Kind::scalar || v.quoted || v.scalar.size() > kLongestNumber) {
    wrong_type(v, expected);
  }
  try {
    return parse(v.scalar);
  } catch (const std::invalid_argument& e) {
    fail(v.origin, e.what());
  }
}

}  // namespace

double to_number(const Value& v) {
  return number(v, "a number", [](std::string_view s) { return parse_number(s); });
}

std::int64_t to_integer(const Value& v) {
  return number(v, "a whole number", [](std::string_view s) { return parse_integer(s); });
}

Bandwidth to_bandwidth(const Value& v) {
  const std::string& text = to_string(v);
  try {
    return parse_bandwidth(text);
  } catch (const std::invalid_argument& e) {
    fail(v.origin, e.what());
  }
}

bool to_bool(const Value& v) {
  if (v.kind == Value::Kind::scalar && !v.quoted) {
    if (v.scalar == "true" || v.scalar == "True" || v.scalar == "TRUE") {
      return true;
    }
    if (v.scalar == "false" || v.scalar == "False" || v.scalar == "FALSE") {
      return false;
    }
  }
  wrong_type(v, "true or false");
}

const std::string& to_string(const Value& v) {
  if (v.kind != Value::Kind::scalar) {
    wrong_type(v, "text");
  }
  return v.scalar;
}

}  // namespace stepcast::text
