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
    bool bar = false;  // the one column that holds a bar: padded to `bar_width`, its cells are
                       // painted already
  };
  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // Columns that all but the bar take, with the gaps and the indent.
  int width_without_bar() const;
  // Lines of at most `width` columns: the last column is cut short when it is a left-aligned text.
  std::string text(const Paint& paint, int width, int bar_width = 0) const;

 private:
  std::vector<int> widths() const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace stepcast::report
