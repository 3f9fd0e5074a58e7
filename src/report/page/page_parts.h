// Parts that the pages of searches, comparisons and sweeps share.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "../text/format.h"
#include "stepcast/report/page.h"
#include "stepcast/result/report.h"
#include "stepcast/result/search.h"

namespace stepcast::report {

Cell markup_cell(std::string markup);
std::string between(const result::Estimate& e);  // "7.704 s to 9.563 s"

// Tiles of a figure with its interval, and of a number alone. `figure`: its data-figure.
Tile interval_tile(std::string name, std::string value, std::string range, std::string figure,
                   const result::Estimate& e);
Tile number_tile(std::string name, std::string value, std::string remark, std::string figure,
                 double number, Tile::Tone tone = Tile::Tone::plain);

// A part of a stacked bar, with the hint "compute: 6.34 s", and ", 73.4 %" where a whole is given.
Part time_part(const char* colour, const char* name, double seconds, double whole = 0);

// The parts of a strategy's step, and a legend with the same colours and names.
std::vector<Part> strategy_parts(const result::Strategy& s, bool with_shares);
const std::vector<Mark>& strategy_marks();

// The options of a strategy, folded where they are long.
std::string strategy_options(const std::vector<std::string>& overrides);

// Overrides as a table: a column for each key in which rows differ (`names`: the last word of each
// key, where no other key ends with it). A row without a key has "". `alike`: overrides that all
// rows have.
struct OverrideColumns {
  // `first_row`: only the keys of the first row become columns; a single row has none.
  explicit OverrideColumns(const std::vector<std::vector<std::string>>& rows,
                           bool first_row = false);
  std::vector<std::string> keys, names, alike;
  std::string value(const std::vector<std::string>& row, std::size_t key) const;
};

// A bar from 0 to `most` with its interval as a whisker, as SVG.
std::string interval_bar(const std::vector<Part>& parts, double low, double high, double most);

}  // namespace stepcast::report
