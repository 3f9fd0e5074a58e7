// Tables of records: one column for each field that has a caption, for the terminal and for pages.
#pragma once

#include <vector>

#include "../text/text_table.h"
#include "stepcast/report/page.h"
#include "value.h"

namespace stepcast::report {

// Columns of a terminal's table where no caller states its width.
inline constexpr int kUsualWidth = 120;

// A column, chosen by its field's caption. It may have another heading and another form.
struct Pick {
  Pick(const char* c) : caption(c), heading(c) {}  // NOLINT: a caption is a pick
  Pick(std::string_view c, std::string_view h) : caption(c), heading(h) {}
  Pick(std::string_view c, std::string_view h, Show s) : caption(c), heading(h), show(s) {}
  std::string_view caption, heading;
  std::optional<Show> show = {};
};
// The columns in their order; none: all fields that have a caption, in the record's order.
using Captions = std::vector<Pick>;

// `head` is a record that defines the columns; its values are not used.
TextTable text_table(const Record& head, const std::vector<Record>& rows,
                     const Captions& captions = {});
Table page_table(const Record& head, const std::vector<Record>& rows,
                 const Captions& captions = {});

// A single row of a table.
std::vector<std::string> text_row(const Record& fields, const Captions& captions = {});
std::vector<Column> page_columns(const Record& head, const Captions& captions = {});
std::vector<Cell> page_row(const Record& fields, const Captions& captions = {});

// `fields` makes a record of each item, and of an empty item the record that defines the columns.
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

// A Markdown table; numbers are aligned to the right.
std::string markdown_table(const Record& head, const std::vector<Record>& rows,
                           const Captions& captions = {});

// A line of keys and a line for each record; an interval has one column, for its value.
std::string csv_of(const Record& head, const std::vector<Record>& rows);
std::string csv_line(const Record& fields);

}  // namespace stepcast::report
