// Numbers and columns as a reader of a terminal wants them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "stepcast/base/quantity.h"

namespace stepcast::report {

// `digits` significant digits without an exponent: 0.01234, 12.34, 1234.
std::string significant(double value, int digits = 4);
std::string thousands(std::int64_t value);  // 1,234,567
std::string percent(double fraction);       // 41.3 %
std::string gibibytes(double bytes);        // 61.2 (the unit stands in the heading)
std::string duration(double seconds);       // 1.234 s, 56.7 ms, 8.90 us
std::string data_size(double bytes);        // 488 GiB, 1.25 MiB
std::string rate(double bytes_per_second);  // 215 GB/s, 48.7 kB/s

// The unit that fits `seconds`, and how many of it make a second.
struct TimeUnit {
  std::string_view name;
  double per_second;
};
TimeUnit unit_for(double seconds);

// Columns that UTF-8 text takes (every code point we print is one column wide).
int columns(std::string_view text);
std::string pad_right(std::string text, int width);
std::string pad_left(std::string text, int width);
// At most `width` columns; what is cut off is shown as an ellipsis.
std::string shorten(std::string_view text, int width);
// Breaks at spaces; lines after the first are indented by `indent`.
std::string wrap(std::string_view text, int width, int indent);

// Paints only when asked to.
struct Paint {
  bool on = false;
  // `sgr`: the parameters of the terminal's "select graphic rendition", such as "1" (bold) or
  // "38;5;33" (a colour).
  std::string operator()(std::string_view sgr, std::string_view text) const;
};

}  // namespace stepcast::report
