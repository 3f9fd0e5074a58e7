// Decimal numbers as people write them in configs.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace stepcast {

// "80", "-1.5", ".5", "15e12", "1_000". Throws std::invalid_argument, whose message says what is
// wrong and what was expected, on anything else: octal-looking "010", "0x1f", "nan", "inf", "",
// numbers beyond the range of double.
double parse_number(std::string_view text);

// The same, for whole numbers within 64 bit: "15e12" and "1.5e3" are whole; every digit counts.
std::int64_t parse_integer(std::string_view text);

// A number with an ending as people write sizes: "15T", "8.5B" and "2M" are 1e12, 1e9 and 1e6 times the number, "4k" is
// 1,024 times it, since contexts of 4k or 128k are powers of two, and "5%" is a hundredth of it. Nothing where `text` has no
// such ending; throws std::invalid_argument where what stands before it is no number.
std::optional<double> parse_scaled(std::string_view text);
// With such an ending or without it.
double parse_size(std::string_view text);

// Characters at the start of `text` that can belong to a number: "1.5 us" has 3, "1EB" has 1,
// "1e3B" has 3.
std::size_t number_length(std::string_view text);

}  // namespace stepcast
