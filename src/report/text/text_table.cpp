#include "text_table.h"

#include <algorithm>

namespace stepcast::report {
namespace {

constexpr int kIndent = 2;
constexpr int kGap = 2;

}  // namespace

std::vector<int> TextTable::widths() const {
  std::vector<int> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    int widest = columns_[i].bar ? 0 : columns(columns_[i].heading);
    for (const auto& row : rows_) {
      widest = std::max(widest, columns_[i].bar ? 0 : columns(row[i]));
    }
    widths.push_back(widest);
  }
  return widths;
}

int TextTable::width_without_bar() const {
  int total = kIndent - kGap;
  for (const int width : widths()) {
    total += width + kGap;
  }
  return total;
}

std::string TextTable::text(const Paint& paint, int width, int bar_width) const {
  std::vector<int> sizes = widths();
  const auto line = [&](const std::vector<std::string>& cells, bool heading) {
    std::string out(kIndent, ' ');
    int used = kIndent;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const Column& column = columns_[i];
      const bool last = i + 1 == cells.size();
      std::string cell = cells[i];
      if (!column.bar || heading) {
        const int size = column.bar ? bar_width : sizes[i];
        if (last && column.align == Align::left) {
          cell = shorten(cell, std::max(8, width - used));
        } else {
          cell = column.align == Align::left || column.bar ? pad_right(shorten(cell, size), size)
                                                           : pad_left(cell, size);
        }
        used += size;
      } else {
        used += bar_width;
      }
      out += heading ? paint("2", cell) : cell;
      if (!last) {
        out.append(kGap, ' ');
        used += kGap;
      }
    }
    out.erase(out.find_last_not_of(' ') + 1);
    return out + '\n';
  };
  std::vector<std::string> headings;
  headings.reserve(columns_.size());
  for (const Column& column : columns_) {
    headings.push_back(column.heading);
  }
  std::string out = line(headings, true);
  for (const auto& row : rows_) {
    out += line(row, false);
  }
  return out;
}

}  // namespace stepcast::report
