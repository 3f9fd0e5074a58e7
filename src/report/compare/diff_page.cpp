// Two forecasts beside each other, as one page.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "../page/page_parts.h"
#include "../record/tables.h"
#include "../text/format.h"
#include "../timeline/timeline_data.h"
#include "compare_conclusion.h"
#include "stepcast/report/diff.h"

namespace stepcast::report {
namespace {

struct Half {
  std::string name;
  double step = 0;  // seconds
  double Diff::Figure::*value = nullptr;
};

// "exposed.tensor" -> "tensor": the colour of style.css.
std::string colour_of(const std::string& kind) { return kind.substr(kind.rfind('.') + 1); }

const Diff::Figure* figure_of(const Diff& d, const char* name) {
  const auto found = std::find_if(d.figures.begin(), d.figures.end(),
                                  [&](const Diff::Figure& f) { return f.name == name; });
  return found == d.figures.end() ? nullptr : &*found;
}

// The kinds of time, those that wait last: "bubble" and "stall" stand at a bar's end.
std::vector<const Diff::Figure*> kinds_of_time(const Diff& d) {
  std::vector<const Diff::Figure*> out;
  for (const bool waits : {false, true}) {
    for (const Diff::Figure& f : d.figures) {
      if (f.unit == "s" && f.name != "step time" &&
          (f.name == "bubble" || f.name == "stall") == waits) {
        out.push_back(&f);
      }
    }
  }
  return out;
}

std::vector<Tile> tiles_of(const Diff& d) {
  std::vector<Tile> out;
  for (const char* name : {"step time", "MFU", "peak memory", "fits, probability"}) {
    if (const Diff::Figure* f = figure_of(d, name)) {
      Tile tile{f->name,
                difference_text(*f, f->b),
                fmt::format("{} before, {}", difference_text(*f, f->a), difference_change(*f)),
                f->name,
                {f->b},
                {}};
      std::replace(tile.figure.begin(), tile.figure.end(), ' ', '_');
      out.push_back(std::move(tile));
    }
  }
  return out;
}

// One bar above the other on one scale: the mean of the stages.
std::string bars(const Diff& d, const std::vector<Half>& halves) {
  double longest = 0;
  for (const Half& half : halves) {
    longest = std::max(longest, half.step);
  }
  Table table;
  table.id = "times";
  table.caption = "Mean of the stages; both bars have one scale.";
  table.columns = {{"", Column::Kind::text, ""},
                   {"step time", Column::Kind::number, ""},
                   {"", Column::Kind::bar, ""}};
  std::vector<Mark> marks;
  const std::vector<const Diff::Figure*> kinds = kinds_of_time(d);
  for (const Diff::Figure* f : kinds) {
    marks.push_back({colour_of(f->name), colour_of(f->name), ""});
  }
  for (const Half& half : halves) {
    std::vector<Part> parts;
    for (const Diff::Figure* f : kinds) {
      const std::string kind = colour_of(f->name);
      parts.push_back(
          {kind, f->*half.value, fmt::format("{}: {}", kind, duration(f->*half.value))});
    }
    table.rows.push_back(
        {Cell(half.name), Cell(duration(half.step), half.step), markup_cell(bar(parts, longest))});
  }
  return legend(marks) + to_html(table);
}

Table figures_table(const Diff& d) {
  Table table;
  table.id = "figures";
  table.columns = {{"", Column::Kind::text, ""},
                   {d.a, Column::Kind::number, ""},
                   {d.b, Column::Kind::number, ""},
                   {"change", Column::Kind::number, ""}};
  for (const Diff::Figure& f : d.figures) {
    table.rows.push_back({Cell(f.name), Cell(difference_text(f, f.a), f.a),
                          Cell(difference_text(f, f.b), f.b), Cell(difference_change(f))});
  }
  return table;
}

Table keys_table(const Diff& d) {
  Table table;
  table.id = "keys";
  table.columns = {{"key", Column::Kind::text, ""},
                   {d.a, Column::Kind::prose, ""},
                   {d.b, Column::Kind::prose, ""}};
  for (const Diff::Key& k : d.keys) {
    table.rows.push_back({Cell(k.key), Cell(k.a), Cell(k.b)});
  }
  return table;
}

// A step is drawn as wide as it is long beside the longer one; the plot's own margins are 64
// pixels.
std::string timeline_of(const Half& half, const result::Report& report, double longest) {
  const TimelineRows rows = timeline_rows(*report.trace);
  const std::string drawn = timeline_still(
      *report.trace, rows, fmt::format("Timeline of {} over {}.", half.name, duration(half.step)));
  return fmt::format(
      "<h3>{}</h3>\n<div style=\"width: calc(64px + {:.4f} * (100% - 64px))\">{}"
      "</div>\n",
      html_text(half.name), longest > 0 ? half.step / longest : 1, drawn);
}

}  // namespace

std::string html(const Diff& d, const result::Report* a, const result::Report* b) {
  Page page("Two forecasts", fmt::format("{} against {}", d.b, d.a));
  page.lead(conclusion(d));
  const Diff::Figure* step = figure_of(d, "step time");
  const std::vector<Half> halves = {{d.a, step != nullptr ? step->a : 0, &Diff::Figure::a},
                                    {d.b, step != nullptr ? step->b : 0, &Diff::Figure::b}};
  page.section("glance", "At a glance", fmt::format("{}; before: {}", d.b, d.a));
  page.add(to_html(tiles_of(d)));
  page.section("time", "Where the step goes");
  page.add(bars(d, halves));
  page.section("timeline", "Timelines");
  const double longest = std::max(halves[0].step, halves[1].step);
  const result::Report* const reports[] = {a, b};
  for (std::size_t i = 0; i < halves.size(); ++i) {
    page.add(
        reports[i] != nullptr && reports[i]->trace
            ? timeline_of(halves[i], *reports[i], longest)
            : paragraph(halves[i].name + ": a forecast that is read from JSON has no timeline."));
  }
  page.add(paragraph("Compute streams of the busiest rank of each stage, on one scale of time."));
  page.section("all-figures", "Figures", "Time of each kind: mean of the stages.");
  page.add(to_html(figures_table(d)));
  page.section("job", "Keys that differ");
  page.add(d.keys.empty() ? paragraph("The jobs are the same.") : to_html(keys_table(d)));
  page.add(embedded_json("data", json(d)));
  return page.finish();
}

}  // namespace stepcast::report
