#include "stepcast/base/number.h"

#include <limits>
#include <stdexcept>
#include <string>

#include "catch.hpp"

using namespace stepcast;

TEST_CASE("Decimal numbers as people write them") {
  CHECK(parse_number("8") == 8);
  CHECK(parse_number("-1.5") == -1.5);
  CHECK(parse_number("+2") == 2);
  CHECK(parse_number(".5") == 0.5);
  CHECK(parse_number("5.") == 5);
  CHECK(parse_number("0") == 0);
  CHECK(parse_number("0.25") == 0.25);
  CHECK(parse_number("15e12") == 15e12);
  CHECK(parse_number("1E+3") == 1000);
  CHECK(parse_number("1_000.5") == 1000.5);
  CHECK(parse_number("0.1") == 0.1);
  CHECK(parse_number("1e-400") == 0);
  CHECK(parse_number("1.7976931348623157e308") == std::numeric_limits<double>::max());
}

TEST_CASE("Whole numbers may be written with an exponent, and no digit is lost") {
  CHECK(parse_integer("15e12") == 15'000'000'000'000);
  CHECK(parse_integer("1.5e3") == 1500);
  CHECK(parse_integer("2.0") == 2);
  CHECK(parse_integer("1_000") == 1000);
  CHECK(parse_integer("-0") == 0);
  CHECK(parse_integer("100e-2") == 1);
  CHECK(parse_integer("9007199254740993") == 9007199254740993);
  CHECK(parse_integer("9223372036854775807") == std::numeric_limits<std::int64_t>::max());
  CHECK(parse_integer("-9223372036854775808") == std::numeric_limits<std::int64_t>::min());
}

TEST_CASE("What is no decimal number is refused, with the reason") {
  const auto [text, reason] = GENERATE(table<const char*, const char*>({
      {"", "is not a number"},
      {"-", "is not a number"},
      {".", "is not a number"},
      {"e5", "is not a number"},
      {"1e", "whole exponent"},
      {"1e+", "whole exponent"},
      {"1e+-5", "whole exponent"},
      {"1e1.5", "is not a number"},
      {"1.2.3", "is not a number"},
      {"--1", "is not a number"},
      {"1 2", "is not a number"},
      {"12abc", "is not a number"},
      {"010", "looks octal"},
      {"-007", "looks octal"},
      {"00", "looks octal"},
      {"0_1", "looks octal"},
      {"0x1f", "is not a decimal number"},
      {"0o17", "is not a decimal number"},
      {"0b11", "is not a decimal number"},
      {"_1", "only between two digits"},
      {"1_", "only between two digits"},
      {"1__0", "only between two digits"},
      {"1_.5", "only between two digits"},
      {"nan", "is not finite"},
      {"NaN", "is not finite"},
      {".nan", "is not finite"},
      {"inf", "is not finite"},
      {"-.inf", "is not finite"},
      {"1e309", "beyond range"},
      {"-1e309", "beyond range"},
      {"1e999999", "beyond range"},
      {"1e99999999999", "whole exponent"},
  }));
  INFO(text);
  CHECK_THROWS_WITH(parse_number(text), ContainsSubstring(reason) && ContainsSubstring("expected"));
  CHECK_THROWS_AS(parse_integer(text), std::invalid_argument);
}

TEST_CASE("Fractions and big numbers are no 64-bit integers") {
  CHECK_THROWS_WITH(parse_integer("1.5"), ContainsSubstring("is not whole"));
  CHECK_THROWS_WITH(parse_integer("1e-1"), ContainsSubstring("is not whole"));
  CHECK_THROWS_WITH(parse_integer("9223372036854775808"), ContainsSubstring("beyond range"));
  CHECK_THROWS_WITH(parse_integer("1e19"), ContainsSubstring("beyond range"));
  CHECK_THROWS_WITH(parse_integer(std::string(1000, '9')), ContainsSubstring("beyond range"));
}

TEST_CASE("A number ends where its unit begins") {
  CHECK(number_length("1.5 us") == 3);
  CHECK(number_length("1EB") == 1);
  CHECK(number_length("1e3B") == 3);
  CHECK(number_length("1e-3s") == 4);
  CHECK(number_length("-5 GB") == 2);
  CHECK(number_length("GB") == 0);
  CHECK(number_length("") == 0);
}

TEST_CASE("Sizes end as people write them") {
  CHECK(parse_scaled("15T") == 15e12);
  CHECK(parse_scaled("8.5B") == 8.5e9);
  CHECK(parse_scaled("2M") == 2e6);
  CHECK(parse_scaled("4k") == 4096);
  CHECK(parse_scaled("128K") == 131072);
  CHECK(parse_scaled("5%") == 0.05);
  CHECK_FALSE(parse_scaled("15"));
  CHECK_FALSE(parse_scaled("T"));
  CHECK_FALSE(parse_scaled("15 GB/s"));
  CHECK_THROWS_AS(parse_scaled("oneT"), std::invalid_argument);
  CHECK(parse_size("15e12") == parse_size("15T"));
}
