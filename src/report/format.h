// Numbers and columns as a reader of a terminal wants them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "stepcast/base/quantity.h"
#include "stepcast/result/report.h"

namespace stepcast::report {

inline constexpr double kGibibyte = 0x1p30;  // bytes

// `digits` significant digits without an exponent: 0.01234, 12.34, 1234.
std::string significant(double value, int digits = 4);
std::string thousands(std::int64_t value);    // 1,234,567
std::string percent(double fraction);         // 41.3 %
std::string signed_percent(double fraction);  // +2.3 %
std::string money(double value);              // 12.3 M, 456 k
std::string gibibytes(double bytes);          // 61.2 (the unit stands in the heading)
std::string duration(double seconds);         // 1.234 s, 56.7 ms, 8.90 us
std::string data_size(double bytes);          // 488 GiB, 1.25 MiB
std::string rate(double bytes_per_second);    // 215 GB/s, 48.7 kB/s

// "7.704 to 9.563" of an interval in units of which `per` make one; empty where both ends are
// alike.
std::string range(const result::Estimate& e, double per = 1, int digits = 4);
// "8.63 days (7.70 to 9.56)", with three digits.
std::string with_range(const result::Estimate& e, double per, std::string_view unit);

// The last part of a path; and without what follows its last dot.
std::string file_name(const std::string& path);
std::string file_stem(const std::string& path);
// A cell of a CSV file as RFC 4180 has it: in quotes where it holds a comma, a quote or a line's
// end.
std::string csv_cell(const std::string& text);

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

// A wrapped line of a list: two spaces, then `indent` of them where it goes on.
std::string item(std::string_view text, int width, int indent = 2);

// Paints only when asked to.
struct Paint {
  bool on = false;
  // `sgr`: the parameters of the terminal's "select graphic rendition", such as "1" (bold) or
  // "38;5;33" (a colour).
  std::string operator()(std::string_view sgr, std::string_view text) const;
};

// The heading of a section, and beside it a remark cut to `width` columns in all.
std::string heading(const Paint& paint, std::string_view title, std::string_view remark = "",
                    int width = 1000);

}  // namespace stepcast::report
