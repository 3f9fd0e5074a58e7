// A table in text: columns as wide as their widest cell, two spaces apart, headings dimmed.
#pragma once

#include <string>
#include <vector>

#include "format.h"

namespace stepcast::report {

class TextTable {
 public:
  enum class Align { left, right };
  struct Column {
    std::string heading;
    Align align = Align::right;
    // The one column with bars: padded to `bar_width`; its cells are coloured already.
    bool bar = false;
  };
  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // Width of everything but the bar, including gaps and indent.
  int width_without_bar() const;
  // The table in lines of at most `width` columns: the last column is cut if it is a left-aligned
  // text.
  std::string text(const Paint& paint, int width, int bar_width = 0) const;

 private:
  std::vector<int> widths() const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace stepcast::report
