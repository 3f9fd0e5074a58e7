#include "tables.h"

#include <fmt/format.h>

#include <algorithm>

#include "stepcast/base/diagnostics.h"

namespace stepcast::report {
namespace {

struct Chosen {
  const Field* field;
  std::string_view heading;
  Show show;
};

std::vector<Chosen> chosen(const Record& record, const Captions& captions) {
  std::vector<Chosen> out;
  if (captions.empty()) {
    for (const Field& field : record) {
      if (!field.caption.empty()) {
        out.push_back({&field, field.caption, field.show});
      }
    }
  }
  for (const Pick& pick : captions) {
    const auto found = std::find_if(record.begin(), record.end(),
                                    [&](const Field& f) { return f.caption == pick.caption; });
    STEPCAST_CHECK(found != record.end(), "a table asks for a column that its record lacks");
    out.push_back({&*found, pick.heading, pick.show.value_or(found->show)});
  }
  for (Chosen& one : out) {
    one.heading = one.heading == kNoHeading ? std::string_view() : one.heading;
  }
  return out;
}

bool to_the_left(Show show) { return show == Show::text || show == Show::prose; }

Column::Kind column_kind(Show show) {
  switch (show) {
    case Show::text:
    case Show::yes_no:
      return Column::Kind::text;
    case Show::prose:
      return Column::Kind::prose;
    case Show::bar:
      return Column::Kind::bar;
    default:
      return Column::Kind::number;
  }
}

Cell page_cell(const Chosen& one) {
  const Field& field = *one.field;
  Cell cell(shown(field.value, one.show));
  if (column_kind(one.show) == Column::Kind::number) {
    cell.number = number_of(field.value);
  }
  cell.markup = one.show == Show::bar;
  cell.hint = field.hint;
  cell.bad = field.bad;
  return cell;
}

// A cell of a Markdown table: names in it are text, neither columns nor links nor HTML.
std::string markdown_cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '|':
      case '[':
      case '`':
      case '\\':
        out += '\\';
        out += c;
        break;
      default:
        out += c == '\n' ? ' ' : c;
    }
  }
  return out;
}

std::string csv_text(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value.kind())) {
    return csv_cell(*text);
  }
  if (const auto* flag = std::get_if<bool>(&value.kind())) {
    return *flag ? "true" : "false";
  }
  if (const auto* whole = std::get_if<std::int64_t>(&value.kind())) {
    return fmt::to_string(*whole);
  }
  const auto number = number_of(value);
  return number ? fmt::format("{}", *number) : "";
}

}  // namespace

std::vector<std::string> text_row(const Record& fields, const Captions& captions) {
  std::vector<std::string> out;
  for (const Chosen& one : chosen(fields, captions)) {
    out.push_back(shown(one.field->value, one.show));
  }
  return out;
}

TextTable text_table(const Record& head, const std::vector<Record>& rows,
                     const Captions& captions) {
  std::vector<TextTable::Column> columns;
  for (const Chosen& one : chosen(head, captions)) {
    const bool left = to_the_left(one.show);
    columns.push_back(
        {std::string(one.heading), left ? TextTable::Align::left : TextTable::Align::right});
  }
  TextTable table(std::move(columns));
  for (const Record& row : rows) {
    table.row(text_row(row, captions));
  }
  return table;
}

std::vector<Column> page_columns(const Record& head, const Captions& captions) {
  std::vector<Column> out;
  for (const Chosen& one : chosen(head, captions)) {
    out.push_back({std::string(one.heading), column_kind(one.show), ""});
  }
  return out;
}

std::vector<Cell> page_row(const Record& fields, const Captions& captions) {
  std::vector<Cell> out;
  for (const Chosen& one : chosen(fields, captions)) {
    out.push_back(page_cell(one));
  }
  return out;
}

Table page_table(const Record& head, const std::vector<Record>& rows, const Captions& captions) {
  Table table;
  table.columns = page_columns(head, captions);
  for (const Record& row : rows) {
    table.rows.push_back(page_row(row, captions));
  }
  return table;
}

std::string markdown_table(const Record& head, const std::vector<Record>& rows,
                           const Captions& captions) {
  std::string headings = "|", rules = "|";
  for (const Chosen& one : chosen(head, captions)) {
    headings += fmt::format(" {} |", one.heading);
    rules += to_the_left(one.show) || one.show == Show::yes_no ? " --- |" : " ---: |";
  }
  std::string out = headings + "\n" + rules + "\n";
  for (const Record& row : rows) {
    out += "|";
    for (const std::string& cell : text_row(row, captions)) {
      out += " " + markdown_cell(cell) + " |";
    }
    out += "\n";
  }
  return out;
}

std::string csv_line(const Record& fields) {
  std::string out;
  for (const Field& field : fields) {
    out += (&field == &fields.front() ? "" : ",") + csv_text(field.value);
  }
  return out + "\n";
}

std::string csv_of(const Record& head, const std::vector<Record>& rows) {
  std::string out;
  for (const Field& field : head) {
    out += (out.empty() ? "" : ",") + csv_cell(std::string(field.key));
  }
  out += "\n";
  for (const Record& row : rows) {
    out += csv_line(row);
  }
  return out;
}

}  // namespace stepcast::report
