// What the pages of searches, comparisons and sweeps have in common.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "stepcast/report/page.h"
#include "stepcast/result/report.h"

namespace stepcast::report {

Column text_column(const char* name, const char* hint = "");
Column prose_column(const char* name);
Column number_column(const char* name, const char* hint = "");
Column bar_column(const char* name);

Cell seconds_cell(double seconds);
Cell percent_cell(double fraction);
Cell change_cell(double fraction);  // "+2.3 %"
Cell gib_cell(double bytes);
Cell count_cell(std::int64_t count);
Cell markup_cell(std::string markup);

std::string between(const result::Estimate& e);  // "7.704 s to 9.563 s"

// Overrides as a table: a column for each key in which rows differ (its last word, where that
// tells), then rows of values. A row without a key has "". `alike`: what all rows state.
struct OverrideColumns {
  explicit OverrideColumns(const std::vector<std::vector<std::string>>& rows);
  std::vector<std::string> keys, names, alike;
  std::string value(const std::vector<std::string>& row, std::size_t key) const;
};

// A command line's options: "--set a=b --set 'c={d: e}'", as a shell takes them.
std::string set_options(const std::vector<std::string>& overrides);

// A bar from 0 to `most` with its interval as a whisker, as SVG.
std::string interval_bar(const std::vector<Part>& parts, double low, double high, double most);

}  // namespace stepcast::report
