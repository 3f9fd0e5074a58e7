#include "stepcast/report/page.h"

#include <fmt/format.h>

#include <algorithm>

#include "../svg/plot.h"
#include "assets.h"

namespace stepcast::report {
namespace {

std::string attribute(const char* name, const std::string& value) {
  return value.empty() ? "" : fmt::format(" {}=\"{}\"", name, html_text(value));
}

const char* class_of(Column::Kind kind) {
  switch (kind) {
    case Column::Kind::text:
      return " class=\"t\"";
    case Column::Kind::prose:
      return " class=\"t w\"";
    case Column::Kind::bar:
      return " class=\"b\"";
    default:
      return "";
  }
}

const char* tone_of(Tile::Tone tone) {
  return tone == Tile::Tone::good ? " good" : tone == Tile::Tone::bad ? " bad" : "";
}

}  // namespace

std::string html_text(std::string_view text) { return xml_text(text); }

std::string to_html(const std::vector<Tile>& tiles) {
  std::string out = "<dl class=\"tiles\">\n";
  for (const Tile& t : tiles) {
    out +=
        fmt::format("<div class=\"tile{}\"{}", tone_of(t.tone), attribute("data-figure", t.figure));
    constexpr const char* kNames[] = {"value", "low", "high"};
    for (std::size_t i = 0; i < std::min<std::size_t>(3, t.numbers.size()); ++i) {
      out += fmt::format(" data-{}=\"{:.12g}\"", kNames[i], t.numbers[i]);
    }
    out += fmt::format("><dt>{}</dt><dd>{}</dd>", html_text(t.name), html_text(t.value));
    out += t.range.empty() ? "" : fmt::format("<dd class=\"range\">{}</dd>", html_text(t.range));
    out += "</div>\n";
  }
  return out + "</dl>\n";
}

std::string to_html(const Table& table) {
  std::string out = fmt::format("<div class=\"wide\" tabindex=\"0\"><table class=\"cards\"{}{}>",
                                attribute("id", table.id), table.sortable ? " data-sort" : "");
  out +=
      table.caption.empty() ? "" : fmt::format("<caption>{}</caption>", html_text(table.caption));
  out += "<thead><tr>";
  for (const Column& c : table.columns) {
    out += fmt::format("<th scope=\"col\"{}{}>{}</th>", class_of(c.kind),
                       attribute("title", c.hint), html_text(c.name));
  }
  out += "</tr></thead><tbody>\n";
  for (const auto& row : table.rows) {
    out += "<tr>";
    std::size_t column = 0;
    for (const Cell& cell : row) {
      const Column::Kind kind =
          column < table.columns.size() ? table.columns[column].kind : Column::Kind::text;
      std::string shown = class_of(kind);
      if (cell.bad) {
        shown = shown.empty() ? " class=\"bad\"" : shown.substr(0, shown.size() - 1) + " bad\"";
      }
      out += "<td" + shown + attribute("title", cell.hint);
      out += cell.number ? fmt::format(" data-value=\"{:.12g}\"", *cell.number) : "";
      out += cell.span > 1 ? fmt::format(" colspan=\"{}\"", cell.span) : "";
      // On a phone a row is a card, whose cells are named by their columns (style.css).
      out +=
          column < table.columns.size() ? attribute("data-label", table.columns[column].name) : "";
      out += ">" + (cell.markup ? cell.text : html_text(cell.text)) + "</td>";
      column += static_cast<std::size_t>(cell.span);
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string details(std::string_view summary, const std::string& markup, bool open) {
  return fmt::format("<details{}><summary>{}</summary>\n{}</details>\n", open ? " open" : "",
                     html_text(summary), markup);
}

std::string figure(const std::string& markup, std::string_view caption) {
  return fmt::format("<figure>\n{}<figcaption>{}</figcaption>\n</figure>\n", markup,
                     html_text(caption));
}

std::string paragraph(std::string_view text) { return fmt::format("<p>{}</p>\n", html_text(text)); }

std::string legend(const std::vector<Mark>& marks) {
  std::string out = "<ul class=\"legend\">";
  for (const Mark& m : marks) {
    out += fmt::format(
        "<li><svg viewBox=\"0 0 12 12\" aria-hidden=\"true\"><rect class=\"k-{}\" width=\"12\" "
        "height=\"12\" rx=\"2\"/></svg>{}{}</li>",
        m.colour, html_text(m.name),
        m.figure.empty() ? "" : fmt::format(" <b>{}</b>", html_text(m.figure)));
  }
  return out + "</ul>\n";
}

std::string bar(const std::vector<Part>& parts, double whole, std::optional<double> mark) {
  constexpr double kWidth = 1000;  // units of the view box, stretched to the cell
  std::string out =
      "<svg class=\"bar\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" "
      "aria-hidden=\"true\">";
  double at = 0;
  for (const Part& p : parts) {
    const double from = whole > 0 ? std::min(kWidth, at / whole * kWidth) : 0;
    at += p.value;
    const double to = whole > 0 ? std::min(kWidth, at / whole * kWidth) : 0;
    if (to - from >= 0.05) {
      out += fmt::format(
          "<rect class=\"k-{}\" x=\"{:.1f}\" width=\"{:.1f}\" height=\"10\">{}</rect>", p.colour,
          from, to - from, p.hint.empty() ? "" : "<title>" + html_text(p.hint) + "</title>");
    }
  }
  if (mark && whole > 0) {
    out += fmt::format("<path class=\"mark\" d=\"M{:.1f} 0V10\"/>", *mark / whole * kWidth);
  }
  return out + "</svg>";
}

std::string embedded_json(std::string_view id, std::string_view json) {
  std::string out = fmt::format("<script type=\"application/json\" id=\"{}\">", html_text(id));
  for (const char c : json) {
    // In JSON, '<' occurs only inside strings.
    out += c == '<' ? std::string_view("\\u003c") : std::string_view(&c, 1);
  }
  return out + "</script>\n";
}

Page::Page(std::string title, std::string subtitle)
    : title_(std::move(title)), subtitle_(std::move(subtitle)) {}

void Page::section(std::string_view id, std::string_view heading, std::string_view lead) {
  if (in_section_) {
    body_ += "</section>\n";
  }
  in_section_ = true;
  const std::string name = html_text(heading);
  body_ += fmt::format(
      "<section id=\"{0}\" aria-labelledby=\"{0}-h\">\n<h2 id=\"{0}-h\">{1}</h2>\n", id, name);
  body_ += lead.empty() ? "" : paragraph(lead);
  navigation_ += fmt::format("<li><a href=\"#{}\">{}</a></li>", id, name);
}

void Page::script(std::string_view name) {
  scripts_ += "<script>\n" + std::string(asset(name)) + "</script>\n";
}

void Page::style(std::string_view name) { styles_ += asset(name); }

void Page::foot(std::string_view text) { foot_ += paragraph(text); }

std::string Page::finish() const {
  // The policy makes the browser refuse everything that is not in the page.
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'; script-src 'unsafe-inline'; img-src data:{}\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"generator\" content=\"Stepcast {}\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n"
      "<title>{}</title>\n<style>\n",
      own_server_ ? "; connect-src 'self'" : "", STEPCAST_VERSION,
      html_text(subtitle_.empty() ? title_ : title_ + ": " + subtitle_));
  out += asset("style.css");
  out += styles_;
  out += "</style>\n<script>document.documentElement.classList.add('js');</script></head><body>\n";
  out += "<a class=\"skip\" href=\"#main\">Skip to the report</a>\n";
  out += fmt::format(
      "<header><div><h1>{}</h1>{}{}</div></header>\n", html_text(title_),
      subtitle_.empty() ? "" : paragraph(subtitle_),
      lead_.empty() ? "" : fmt::format("<p class=\"conclusion\">{}</p>", html_text(lead_)));
  if (!navigation_.empty()) {
    out += "<nav aria-label=\"Sections\"><ul>" + navigation_ + "</ul></nav>\n";
  }
  out += "<main id=\"main\" tabindex=\"-1\">\n" + body_ + (in_section_ ? "</section>\n" : "");
  out += "</main>\n<footer>" + foot_ + paragraph(fmt::format("Stepcast {}", STEPCAST_VERSION)) +
         "</footer>\n<script>\n";
  out += asset("page.js");
  out += "</script>\n" + scripts_;
  return out + "</body></html>\n";
}

}  // namespace stepcast::report
