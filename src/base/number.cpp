#include "stepcast/base/number.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

namespace stepcast {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

[[noreturn]] void refuse(std::string_view text, std::string_view why) {
  throw std::invalid_argument(fmt::format("'{}' {}", text, why));
}

// The number without sign, underscores and point: value = digits * 10^exponent.
struct Decimal {
  bool negative = false;
  std::string digits;
  int exponent = 0;
};

std::string take_digits(std::string_view text, std::size_t& at, std::string_view whole) {
  std::string digits;
  while (at < text.size() && (is_digit(text[at]) || text[at] == '_')) {
    if (text[at] == '_') {
      const bool between =
          !digits.empty() && text[at - 1] != '_' && at + 1 < text.size() && is_digit(text[at + 1]);
      if (!between) {
        refuse(whole, "is not a number; expected '_' only between two digits");
      }
    } else {
      digits += text[at];
    }
    ++at;
  }
  return digits;
}

int take_exponent(std::string_view text, std::size_t& at, std::string_view whole) {
  int exponent = 0;
  const bool plus = at < text.size() && text[at] == '+';
  const char* begin = text.data() + at + (plus ? 1 : 0);
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), exponent);
  if (error != std::errc() || (plus && !is_digit(*begin))) {
    refuse(whole, "is not a number; expected a whole exponent after 'e'");
  }
  at = static_cast<std::size_t>(end - text.data());
  return exponent;
}

Decimal scan(std::string_view text) {
  constexpr const char* kExpected =
      "is not a number; expected a decimal number such as 8, 0.5 or 15e12";
  Decimal result;
  std::size_t at = 0;
  if (at < text.size() && (text[at] == '-' || text[at] == '+')) {
    result.negative = text[at] == '-';
    ++at;
  }
  if (text.size() >= at + 2 && text[at] == '0') {
    const char next = text[at + 1];
    if (next == 'x' || next == 'X' || next == 'o' || next == 'b' || next == 'B') {
      refuse(text, "is not a decimal number; expected one such as 8, 0.5 or 15e12");
    }
    if (is_digit(next) || next == '_') {
      refuse(text,
             "starts with 0 and looks octal; expected a decimal number without leading zeros");
    }
  }
  result.digits = take_digits(text, at, text);
  const std::size_t whole_digits = result.digits.size();
  if (at < text.size() && text[at] == '.') {
    ++at;
    const std::string fraction = take_digits(text, at, text);
    result.exponent = -static_cast<int>(fraction.size());
    result.digits += fraction;
  }
  if (result.digits.empty()) {
    const std::string_view word = text.substr(text.empty() || is_digit(text[0]) ? 0 : whole_digits);
    if (word.find("nan") != std::string_view::npos || word.find("NaN") != std::string_view::npos ||
        word.find("inf") != std::string_view::npos || word.find("Inf") != std::string_view::npos) {
      refuse(text, "is not finite; expected a decimal number such as 8, 0.5 or 15e12");
    }
    refuse(text, kExpected);
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    const int exponent = take_exponent(text, at, text);
    if (std::abs(static_cast<long>(exponent)) > 100000) {
      refuse(text, "is beyond range; expected a number between -1e308 and 1e308");
    }
    result.exponent += exponent;
  }
  if (at != text.size()) {
    refuse(text, kExpected);
  }
  return result;
}

}  // namespace

double parse_number(std::string_view text) {
  const Decimal d = scan(text);
  // What was scanned is what from_chars reads, but for a plus and for underscores.
  std::string plain;
  std::string_view readable = text.substr(text.front() == '+' ? 1 : 0);
  if (text.find('_') != std::string_view::npos) {
    plain = fmt::format("{}{}e{}", d.negative ? "-" : "", d.digits, d.exponent);
    readable = plain;
  }
  double value = 0;
  const auto [end, error] =
      std::from_chars(readable.data(), readable.data() + readable.size(), value);
  // from_chars reports overflow and underflow alike; of an underflow the nearest number is 0.
  if (error == std::errc::result_out_of_range &&
      d.exponent + static_cast<long>(d.digits.size()) < 0) {
    return 0;
  }
  if (error != std::errc() || !std::isfinite(value)) {
    refuse(text, "is beyond range; expected a number between -1e308 and 1e308");
  }
  return value;
}

std::int64_t parse_integer(std::string_view text) {
  Decimal d = scan(text);
  while (d.exponent < 0 && !d.digits.empty() && d.digits.back() == '0') {
    d.digits.pop_back();
    ++d.exponent;
  }
  d.digits.erase(0, d.digits.find_first_not_of('0'));
  if (d.digits.empty()) {
    return 0;
  }
  if (d.exponent < 0) {
    refuse(text, "is not whole; expected a whole number such as 8 or 15e12");
  }
  // 2^63 has 19 digits: a longer number never fits.
  if (d.digits.size() + static_cast<std::size_t>(d.exponent) <= 19) {
    d.digits.append(static_cast<std::size_t>(d.exponent), '0');
    const std::string plain = (d.negative ? "-" : "") + d.digits;
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), value);
    if (error == std::errc()) {
      return value;
    }
  }
  refuse(text, "is beyond range; expected a whole number below 2^63");
}

std::optional<double> parse_scaled(std::string_view text) {
  struct Ending {
    char letter;
    double factor;
  };
  constexpr Ending kEndings[] = {{'k', 1024}, {'K', 1024}, {'M', 1e6},
                                 {'B', 1e9},  {'T', 1e12}, {'%', 0.01}};
  for (const Ending& ending : kEndings) {
    if (text.size() > 1 && text.back() == ending.letter) {
      return parse_number(text.substr(0, text.size() - 1)) * ending.factor;
    }
  }
  return std::nullopt;
}

double parse_size(std::string_view text) {
  const auto scaled = parse_scaled(text);
  return scaled ? *scaled : parse_number(text);
}

std::size_t number_length(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (is_digit(c) || c == '.' || c == '_' || ((c == '+' || c == '-') && at == 0)) {
      ++at;
      continue;
    }
    // An exponent needs a digit after it: "1EB" is one exabyte.
    if ((c == 'e' || c == 'E') && at > 0) {
      const std::size_t sign =
          at + 1 < text.size() && (text[at + 1] == '+' || text[at + 1] == '-') ? 1 : 0;
      if (at + 1 + sign < text.size() && is_digit(text[at + 1 + sign])) {
        at += 2 + sign;
        continue;
      }
    }
    break;
  }
  return at;
}

}  // namespace stepcast
