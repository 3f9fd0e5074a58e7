// Formats numbers and columns for readers of a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stepcast/base/quantity.h"
#include "stepcast/result/report.h"

namespace stepcast::report {

inline constexpr double kGibibyte = 0x1p30;  // bytes

inline double bytes_of(Bytes bytes) { return static_cast<double>(bytes.count()); }
inline double bytes_of(std::int64_t bytes) { return static_cast<double>(bytes); }

// `digits` significant digits without an exponent: 0.01234, 12.34, 1234.
std::string significant(double value, int digits = 4);
std::string thousands(std::int64_t value);    // 1,234,567
std::string percent(double fraction);         // 41.3 %
std::string signed_percent(double fraction);  // +2.3 %
std::string money(double value);              // 12.3 M, 456 k
std::string gibibytes(double bytes);          // 61.2 (the unit is in the heading)
std::string duration(double seconds);         // 1.234 s, 56.7 ms, 8.90 us
std::string data_size(double bytes);          // 488 GiB, 1.25 MiB
std::string rate(double bytes_per_second);    // 215 GB/s, 48.7 kB/s

// The interval as "7.704 to 9.563", in units of `per`; empty where both ends are equal.
std::string range(const result::Estimate& e, double per = 1, int digits = 4);
// "8.63 days (7.70 to 9.56)", with three digits.
std::string with_range(const result::Estimate& e, double per, std::string_view unit);

// The last part of a path; and the same without its extension.
std::string file_name(const std::string& path);
std::string file_stem(const std::string& path);
// A cell of a CSV file by RFC 4180: in quotes where it contains a comma, a quote or the end of a
// line.
std::string csv_cell(const std::string& text);

// Overrides as options of a command line, quoted for a shell: "--set a=b --set 'c={d: e}'".
std::string set_options(const std::vector<std::string>& overrides);

// A unit in which `seconds` have few digits, and the number of these units in a second.
struct TimeUnit {
  std::string_view name;
  double per_second;
};
TimeUnit unit_for(double seconds);

// Columns that UTF-8 text takes (every code point we print is one column wide).
int columns(std::string_view text);
std::string pad_right(std::string text, int width);
std::string pad_left(std::string text, int width);
// The text in at most `width` columns; an ellipsis replaces what is cut off.
std::string shorten(std::string_view text, int width);
// Breaks at spaces; lines after the first are indented by `indent`.
std::string wrap(std::string_view text, int width, int indent);

// A wrapped line of a list, indented by two spaces; its further lines are indented by `indent`
// more.
std::string item(std::string_view text, int width, int indent = 2);

// Colours text if colour is enabled.
struct Paint {
  bool on = false;
  // `sgr`: the parameters of the terminal's "select graphic rendition", such as "1" (bold) or
  // "38;5;33" (a colour).
  std::string operator()(std::string_view sgr, std::string_view text) const;
};

// A line of figures in columns: a name, a value in the colour `sgr` with its unit, and a remark.
std::string figure_line(const Paint& paint, std::string_view name, std::string_view value,
                        std::string_view unit, std::string_view remark = "",
                        std::string_view sgr = "1");

// The heading of a section, followed by a remark; the line is cut to `width` columns.
std::string heading(const Paint& paint, std::string_view title, std::string_view remark = "",
                    int width = 1000);

}  // namespace stepcast::report
