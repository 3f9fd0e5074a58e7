// Numbers of a trace, exactly: a time stamp of microseconds since 1970 with three decimals has more
// digits than a double.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace stepcast::trace {

// whole + millionths * 1e-6
struct Decimal {
  std::int64_t whole = 0;
  std::int64_t millionths = 0;  // of the same sign; further decimals are dropped
};

// "4458676522690.655", "12", "1e3"; nothing where the text is no number, or one beyond 18 digits.
std::optional<Decimal> parse_decimal(std::string_view text);
// The same of a whole number.
std::optional<std::int64_t> parse_whole(std::string_view text);

}  // namespace stepcast::trace
