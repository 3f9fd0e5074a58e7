// Tables of records: one column for each field that has a caption, for the terminal and for pages.
#pragma once

#include <vector>

#include "stepcast/report/page.h"
#include "text_table.h"
#include "value.h"

namespace stepcast::report {

// Columns of a terminal's table where no caller states its width.
inline constexpr int kUsualWidth = 120;

// A column by its field's caption, with a heading or a form of its own where it is to have one.
struct Pick {
  Pick(const char* c) : caption(c), heading(c) {}  // NOLINT: a caption is a pick
  Pick(std::string_view c, std::string_view h) : caption(c), heading(h) {}
  Pick(std::string_view c, std::string_view h, Show s) : caption(c), heading(h), show(s) {}
  std::string_view caption, heading;
  std::optional<Show> show = {};
};
// In the order wanted; none: all fields that have a caption, in the record's order.
using Captions = std::vector<Pick>;

// `head` stands for the columns; its values count for nothing.
TextTable text_table(const Record& head, const std::vector<Record>& rows,
                     const Captions& captions = {});
Table page_table(const Record& head, const std::vector<Record>& rows,
                 const Captions& captions = {});

// One row of each.
std::vector<std::string> text_row(const Record& fields, const Captions& captions = {});
std::vector<Column> page_columns(const Record& head, const Captions& captions = {});
std::vector<Cell> page_row(const Record& fields, const Captions& captions = {});

// `fields` makes a record of each; of an empty one it makes the columns.
template <class T, class Fields>
std::vector<Record> records(const std::vector<T>& all, const Fields& fields) {
  std::vector<Record> out;
  for (const T& one : all) {
    out.push_back(fields(one));
  }
  return out;
}
template <class T, class Fields>
TextTable text_table(const std::vector<T>& all, const Fields& fields,
                     const Captions& captions = {}) {
  return text_table(fields(T()), records(all, fields), captions);
}
template <class T, class Fields>
Table page_table(const std::vector<T>& all, const Fields& fields, const Captions& captions = {}) {
  return page_table(fields(T()), records(all, fields), captions);
}

// "| a | b |", and under it a line of rules: numbers to the right.
std::string markdown_table(const Record& head, const std::vector<Record>& rows,
                           const Captions& captions = {});

// A line of keys and a line for each record; an interval takes one column, that of its value.
std::string csv_of(const Record& head, const std::vector<Record>& rows);
std::string csv_line(const Record& fields);

}  // namespace stepcast::report
