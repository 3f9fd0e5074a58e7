#include "../../../src/report/text/format.h"

#include "catch.hpp"
#include "sample.h"

using namespace stepcast;

TEST_CASE("Numbers keep their significant digits and take no exponent") {
  CHECK(report::significant(12.3449) == "12.34");
  CHECK(report::significant(9.99996) == "10.00");  // rounding adds a digit
  CHECK(report::significant(1234.6) == "1235");
  CHECK(report::significant(123456) == "123500");
  CHECK(report::significant(0.0123456, 3) == "0.0123");
  CHECK(report::significant(-5.5, 2) == "-5.5");
  CHECK(report::significant(0) == "0");
  CHECK(report::significant(std::nan("")) == "-");
  CHECK(report::thousands(0) == "0");
  CHECK(report::thousands(999) == "999");
  CHECK(report::thousands(-1234567) == "-1,234,567");
  CHECK(report::percent(0.1234) == "12.3 %");
}

TEST_CASE("Sizes, rates and times take the unit that fits") {
  CHECK(report::data_size(488.0 * (1 << 30)) == "488 GiB");
  CHECK(report::data_size(1.25 * (1 << 20)) == "1.25 MiB");
  CHECK(report::data_size(4) == "4.00 B");
  CHECK(report::rate(215.4e9) == "215 GB/s");
  CHECK(report::rate(48.7e3) == "48.7 kB/s");
  CHECK(report::duration(1.2345) == "1.23 s");
  CHECK(report::duration(0.0567) == "56.7 ms");
  CHECK(report::duration(8.9e-6) == "8.90 us");
  CHECK(report::duration(0) == "0 s");
}

TEST_CASE("Text is measured in columns, not bytes") {
  CHECK(report::columns("█▓ä") == 3);
  CHECK(report::pad_left("█", 3) == "  █");
  CHECK(report::pad_right("█", 3) == "█  ");
  CHECK(report::shorten("█▓▒░", 4) == "█▓▒░");
  CHECK(report::shorten("█▓▒░░", 4) == "█▓▒…");
  CHECK(report::wrap("aa bb cc dd", 5, 0) == "aa bb\ncc dd");
  CHECK(report::wrap("aa bb cc", 7, 2) == "aa bb\n  cc");
}
