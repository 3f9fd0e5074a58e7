#include "decimal.h"

#include <charconv>
#include <cmath>

namespace stepcast::trace {
namespace {

// Numbers with an exponent, which profilers do not write.
std::optional<Decimal> with_exponent(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(std::abs(value) < 1e18)) {
    return std::nullopt;
  }
  const double whole = std::trunc(value);
  return Decimal{static_cast<std::int64_t>(whole),
                 static_cast<std::int64_t>(std::llround((value - whole) * 1e6))};
}

}  // namespace

std::optional<Decimal> parse_decimal(std::string_view text) {
  const std::string_view all = text;
  const bool negative = text.starts_with('-');
  if (negative) {
    text.remove_prefix(1);
  }
  std::int64_t whole = 0;
  std::size_t at = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    if (at == 19 || whole > (INT64_MAX - 9) / 10) {
      return std::nullopt;
    }
    whole = whole * 10 + (text[at++] - '0');
  }
  if (at == 0) {
    return std::nullopt;
  }
  std::int64_t millionths = 0;
  if (at < text.size() && text[at] == '.') {
    ++at;
    std::int64_t unit = 100000;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
      millionths += unit * (text[at++] - '0');
      unit /= 10;
    }
  }
  if (at != text.size()) {
    return with_exponent(all);
  }
  return negative ? Decimal{-whole, -millionths} : Decimal{whole, millionths};
}

std::optional<std::int64_t> parse_whole(std::string_view text) {
  const auto decimal = parse_decimal(text);
  return decimal ? std::optional(decimal->whole) : std::nullopt;
}

}  // namespace stepcast::trace
