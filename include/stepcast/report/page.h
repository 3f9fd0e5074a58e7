// The scaffold of every HTML report: one self-contained page, in the reader's light or dark scheme, printable, operable by
// keyboard, and complete in its figures without JavaScript. Its style and scripts are src/report/page/assets/.
//
//     Page page("Sweep", "llama-3-70b on 64 x dgx-h100");
//     page.section("best", "Best points", "cheapest first");
//     page.add(to_html(table));
//     write(page.finish());
//
// All text is escaped here; functions that return markup say so.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast::report {

// The text with &, <, > and quotes escaped, for the text of elements and for attributes.
std::string html_text(std::string_view text);

// A headline. `figure` names it for scripts and tests (data-figure), which also read its exact numbers.
struct Tile {
  std::string name;             // "Step time"
  std::string value;            // "8.633 s"
  std::string range;            // "7.704 to 9.563", or a remark
  std::string figure;           // "step_time"
  std::vector<double> numbers;  // value, low, high in SI units; or the value alone
  enum class Tone { plain, good, bad } tone = Tone::plain;
};
std::string to_html(const std::vector<Tile>& tiles);

struct Cell {
  Cell(std::string t) : text(std::move(t)) {}  // NOLINT: a text is a cell
  Cell(const char* t) : text(t) {}             // NOLINT
  Cell(std::string t, double value) : text(std::move(t)), number(value) {}
  std::string text;
  std::optional<double> number;  // the exact value of `text`: the column is sorted by it, and it becomes data-value
  std::string hint;              // on hover
  bool markup = false;           // `text` is markup already
  bool bad = false;
  int span = 1;  // columns
};

struct Column {
  enum class Kind { number, text, prose, bar };  // prose is wrapped; a bar takes the width that is left
  std::string name;
  Kind kind = Kind::number;
  std::string hint;
};

struct Table {
  std::string id;       // optional
  std::string caption;  // what the table shows
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
  bool sortable = false;  // by a click on a heading, with JavaScript
};
std::string to_html(const Table& table);

// Markup that is folded below a plain-text summary.
std::string details(std::string_view summary, const std::string& markup, bool open = false);
// A picture (markup) with a caption in plain text. The caption, or a table in details() below, must state the figures.
std::string figure(const std::string& markup, std::string_view caption);
std::string paragraph(std::string_view text);

// Colours by name, the same in the light and the dark scheme: the categories of time ("compute", "tensor"...) and of memory
// ("m-parameters"...), and "s-0" to "s-7" for anything else. style.css defines them: .k-NAME.
struct Mark {
  std::string colour;
  std::string name;
  std::string figure;  // "73.4 %"; may be empty
};
std::string legend(const std::vector<Mark>& marks);

struct Part {
  std::string colour;
  double value = 0;
  std::string hint;  // "compute 6.34 s"
};
// A stacked horizontal bar as SVG, as wide as its container; `whole` is the value of the full width. `mark`: a line at that
// value.
std::string bar(const std::vector<Part>& parts, double whole, std::optional<double> mark = {});

// JSON as a <script type="application/json" id=...> element, with every '<' escaped.
std::string embedded_json(std::string_view id, std::string_view json);

class Page {
 public:
  Page(std::string title, std::string subtitle);

  // The report's first sentence, below its title.
  void lead(std::string sentence) { lead_ = std::move(sentence); }
  // Begins a section (and ends the one before); `id` is its anchor, and the navigation lists its heading.
  void section(std::string_view id, std::string_view heading, std::string_view lead = "");
  void add(const std::string& markup) { body_ += markup; }
  // Adds a script or a style sheet of src/report/page/assets by name. page.js and style.css are always included.
  void script(std::string_view asset);
  void style(std::string_view asset);
  // Lets the page fetch from the server that it came from (`simulate serve`). A report may not fetch at all.
  void allow_own_server() { own_server_ = true; }
  // Sets a remark at the foot, such as how the page was made.
  void foot(std::string_view text);

  std::string finish() const;

 private:
  std::string title_, subtitle_, lead_, navigation_, body_, scripts_, styles_, foot_;
  bool in_section_ = false;
  bool own_server_ = false;
};

}  // namespace stepcast::report
