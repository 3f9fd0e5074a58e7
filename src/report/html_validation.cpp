// Validation as one page.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "format.h"
#include "scatter_validation.h"
#include "stepcast/report/page.h"
#include "stepcast/report/report.h"

namespace stepcast::report {
namespace {

using result::Validation;
using result::ValidationRow;
using result::ValidationSummary;

std::string name_of(const std::string& file) { return std::filesystem::path(file).stem().string(); }

bool memory(const std::string& metric) {
  return metric == "peak_memory" || metric == "steady_memory";
}

bool compared(const ValidationRow& r) {
  return r.status != "skipped" && r.published > 0 && r.predicted > 0 && r.metric != "oom";
}

std::vector<std::string> sources_of(const Validation& v) {
  std::vector<std::string> out;
  for (const ValidationRow& r : v.rows) {
    if (std::find(out.begin(), out.end(), name_of(r.file)) == out.end()) {
      out.push_back(name_of(r.file));
    }
  }
  return out;
}

// Points in seconds or bytes: rates by the step that they follow from.
std::vector<ScatterPoint> points_of(const Validation& v, const std::vector<std::string>& sources,
                                    bool of_memory) {
  std::vector<ScatterPoint> out;
  for (const ValidationRow& r : v.rows) {
    if (!compared(r) || !r.primary || memory(r.metric) != of_memory) {
      continue;
    }
    ScatterPoint p;
    p.row = &r;
    p.source = static_cast<std::size_t>(std::find(sources.begin(), sources.end(), name_of(r.file)) -
                                        sources.begin());
    const bool rate = r.metric == "throughput" || r.metric == "mfu" || r.metric == "hfu";
    if (rate && r.step > 0) {
      p.predicted = r.step;
      p.measured = r.step * r.predicted / r.published;
      p.low = r.high > 0 ? r.step * r.predicted / r.high : r.step;
      p.high = r.low > 0 ? r.step * r.predicted / r.low : r.step;
    } else if (!rate) {
      p.measured = r.published;
      p.predicted = r.predicted;
      p.low = r.low;
      p.high = r.high;
    } else {
      continue;
    }
    out.push_back(p);
  }
  return out;
}

// Of times or of memory; empty without a measured one.
std::string picture(const std::vector<ScatterPoint>& points,
                    const std::vector<std::string>& sources, bool of_memory) {
  std::string out = "<ul class=\"legend\">";
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (std::any_of(points.begin(), points.end(), [&](const auto& p) { return p.source == i; })) {
      out += fmt::format("<li><svg viewBox=\"-6 -6 12 12\">{}</svg>{}</li>", scatter_mark(i, 0, 0),
                         html_text(sources[i]));
    }
  }
  return out + "</ul>\n<div class=\"pair\">" +
         scatter(points, of_memory ? "GiB" : "s", of_memory ? 0x1p30 : 1.0) +
         error_strips(points, sources) + "</div>\n";
}

Column text(const char* name) { return {name, Column::Kind::text, ""}; }
Column prose(const char* name) { return {name, Column::Kind::prose, ""}; }
Column number(const char* name) { return {name, Column::Kind::number, ""}; }

Cell signed_percent(double fraction) {
  return {fmt::format("{:+.1f} %", 100 * fraction), fraction};
}
Cell percent_cell(double fraction, bool bad = false) {
  Cell out{percent(fraction), fraction};
  out.bad = bad;
  return out;
}

std::string summary(const Validation& v) {
  Table table;
  table.id = "sources";
  table.sortable = true;
  table.columns = {text("source"),       text("quantity"),    number("rows"),
                   number("simulated"),  number("share"),     number("median"),
                   number("mean"),       number("bias"),      number("90th percentile"),
                   number("worst"),      number("mean, all"), number("inside"),
                   number("half-width"), number("score")};
  for (const ValidationSummary& s : v.summary) {
    Cell worst = signed_percent(s.worst);
    worst.hint = s.worst_id;
    table.rows.push_back({name_of(s.file), s.metric, Cell(thousands(s.rows), s.rows),
                          Cell(thousands(s.simulated), s.simulated),
                          percent_cell(s.simulated_share(), s.simulated_share() < 0.95),
                          percent_cell(s.median), percent_cell(s.mean), signed_percent(s.bias),
                          percent_cell(s.p90), worst, percent_cell(s.mean_of_all),
                          percent_cell(s.coverage, s.simulated > 0 && s.coverage < 0.7),
                          percent_cell(s.half_width), percent_cell(s.interval_score)});
  }
  return to_html(table);
}

std::string skips(const Validation& v) {
  Table table;
  table.columns = {number("rows"), text("reason"), text("accepted"), prose("meaning")};
  for (const result::SkipCount& s : v.skips) {
    if (s.rows == 0) {
      continue;  // of no row here; the terminal and JSON list every kind
    }
    Cell accepted = s.accepted ? "yes" : "no";
    accepted.bad = !s.accepted && s.rows > 0;
    table.rows.push_back(
        {Cell(thousands(s.rows), static_cast<double>(s.rows)), s.kind, accepted, s.meaning});
  }
  return to_html(table);
}

std::string rows_of(const Validation& v, const std::string& source) {
  std::vector<const ValidationRow*> rows;
  for (const ValidationRow& r : v.rows) {
    if (name_of(r.file) == source) {
      rows.push_back(&r);
    }
  }
  std::stable_sort(rows.begin(), rows.end(), [](const auto* a, const auto* b) {
    return std::abs(a->error) > std::abs(b->error);
  });
  Table table;
  table.sortable = true;
  table.columns = {text("row"),         text("quantity"),     number("measured"),
                   number("predicted"), number("low"),        number("high"),
                   number("error"),     number("deviations"), prose("why")};
  for (const ValidationRow* r : rows) {
    if (r->status == "skipped") {
      Cell gap = "";
      gap.span = 6;
      table.rows.push_back({r->id, r->metric, gap, r->reason.value_or("")});
      continue;
    }
    const auto value = [](double x) { return Cell(fmt::format("{:.4g}", x), x); };
    std::string why = r->reason ? *r->reason + ". " : "";
    why += r->why;
    for (std::size_t i = 0; i < r->open.size(); ++i) {
      why += (i == 0 ? "; not stated: " : ", ") + r->open[i];
    }
    Cell error = signed_percent(r->error);
    error.bad = r->published < r->low || r->published > r->high;
    table.rows.push_back({r->id, r->metric, value(r->published), value(r->predicted), value(r->low),
                          value(r->high), error,
                          Cell(fmt::format("{:+.1f}", r->deviations), r->deviations), why});
  }
  return details(fmt::format("{} ({} results)", source, rows.size()), to_html(table));
}

}  // namespace

std::string html(const Validation& validation) {
  Page page(
      "Forecasts against published measurements",
      fmt::format("{} results", thousands(static_cast<std::int64_t>(validation.rows.size()))));
  const auto sources = sources_of(validation);
  for (const bool of_memory : {false, true}) {
    const auto points = points_of(validation, sources, of_memory);
    if (!points.empty()) {
      page.section(
          of_memory ? "memory" : "times", of_memory ? "Memory" : "Times",
          fmt::format("{} rows; dashed: a tenth off. Rates are shown as the time that they "
                      "follow from.",
                      points.size()));
      page.add(picture(points, sources, of_memory));
    }
  }
  page.section("by-source", "By source",
               "Absolute errors; all: with every row that is missing without an accepted reason at "
               "its source's worst error; inside: rows within their 90 % interval; score: Gneiting "
               "and Raftery's.");
  page.add(summary(validation));
  page.section("skipped", "Not simulated");
  page.add(std::all_of(validation.skips.begin(), validation.skips.end(),
                       [](const result::SkipCount& s) { return s.rows == 0; })
               ? paragraph("Every row was simulated.")
               : skips(validation));
  page.section("rows", "Every row", "SI units; largest error first; red: outside its interval.");
  for (const std::string& source : sources) {
    page.add(rows_of(validation, source));
  }
  return page.finish();
}

}  // namespace stepcast::report
