#include <fmt/format.h>

#include <algorithm>

#include "files.h"
#include "stepcast/text/document.h"

namespace stepcast::text {
namespace {

// Fields of one line as in RFC 4180, except that a quoted field may not span lines: row i is then
// always line i + 2.
std::vector<std::string> fields(std::string_view line, const std::string& file, int number) {
  const auto where = [&](std::size_t at) { return Origin{file, number, static_cast<int>(at) + 1}; };
  std::vector<std::string> result;
  std::size_t at = 0;
  while (true) {
    std::string field;
    if (at < line.size() && line[at] == '"') {
      const std::size_t open = at++;
      while (true) {
        const std::size_t quote = line.find('"', at);
        if (quote == std::string_view::npos) {
          fail(where(open), "a quoted field does not end; expected '\"' on the same line");
        }
        field += line.substr(at, quote - at);
        at = quote + 1;
        if (at >= line.size() || line[at] != '"') {
          break;
        }
        field += '"';
        ++at;
      }
      if (at < line.size() && line[at] != ',') {
        fail(where(at), "text follows a quoted field; expected ',' or the line's end");
      }
    } else {
      const std::size_t end = std::min(line.find(',', at), line.size());
      field = line.substr(at, end - at);
      if (const auto quote = field.find('"'); quote != std::string::npos) {
        fail(where(at + quote),
             "a quote is inside an unquoted field; expected the whole field quoted");
      }
      at = end;
    }
    result.push_back(std::move(field));
    if (at >= line.size()) {
      return result;
    }
    ++at;
  }
}

void check_columns(const Table& table) {
  std::vector<std::string> sorted = table.columns;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) {
    fail({table.file, 1, 1}, fmt::format("duplicate column '{}'; expected it once", *twice));
  }
}

}  // namespace

Table read_csv(const std::filesystem::path& file) {
  const std::string text = read_file(file);
  Table table;
  table.file = file.string();
  check_is_text(text, table.file);
  const std::size_t last = text.find_last_not_of("\r\n");
  if (last == std::string::npos) {
    fail({table.file, 1, 1}, "is empty; expected a line of column names");
  }
  const std::string_view body = std::string_view(text).substr(0, last + 1);
  int number = 1;
  for (std::size_t at = 0; at < body.size(); ++number) {
    const std::size_t end = std::min(body.find('\n', at), body.size());
    std::string_view line = body.substr(at, end - at);
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    at = end + 1;
    std::vector<std::string> row = fields(line, table.file, number);
    if (number == 1) {
      table.columns = std::move(row);
      check_columns(table);
    } else if (row.size() != table.columns.size()) {
      fail({table.file, number, 1},
           fmt::format("the row has {} fields; expected {}", row.size(), table.columns.size()));
    } else {
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

}  // namespace stepcast::text
