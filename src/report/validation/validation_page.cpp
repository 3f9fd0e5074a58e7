// Validation as one page.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "../record/tables.h"
#include "../text/format.h"
#include "stepcast/report/report.h"
#include "validation_conclusion.h"
#include "validation_fields.h"
#include "validation_scatter.h"

namespace stepcast::report {
namespace {

using result::Validation;
using result::ValidationRow;

bool of_memory(const std::string& metric) {
  return metric == "peak_memory" || metric == "steady_memory";
}

bool compared(const ValidationRow& r) {
  return r.status != "skipped" && r.published > 0 && r.predicted > 0 && r.metric != "oom";
}

std::vector<std::string> sources_of(const Validation& v) {
  std::vector<std::string> out;
  for (const ValidationRow& r : v.rows) {
    if (std::find(out.begin(), out.end(), file_stem(r.file)) == out.end()) {
      out.push_back(file_stem(r.file));
    }
  }
  return out;
}

// Points in seconds or bytes; rates are converted to the step time that they follow from.
std::vector<ScatterPoint> points_of(const Validation& v, const std::vector<std::string>& sources,
                                    bool memory) {
  std::vector<ScatterPoint> out;
  for (const ValidationRow& r : v.rows) {
    if (!compared(r) || !r.primary || of_memory(r.metric) != memory) {
      continue;
    }
    ScatterPoint p;
    p.row = &r;
    p.source = static_cast<std::size_t>(
        std::find(sources.begin(), sources.end(), file_stem(r.file)) - sources.begin());
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

// A picture of times or of memory; empty without measured values.
std::string picture(const std::vector<ScatterPoint>& points,
                    const std::vector<std::string>& sources, bool memory) {
  std::string out = "<ul class=\"legend\">";
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (std::any_of(points.begin(), points.end(), [&](const auto& p) { return p.source == i; })) {
      out += fmt::format("<li><svg viewBox=\"-6 -6 12 12\">{}</svg>{}</li>", scatter_mark(i, 0, 0),
                         html_text(sources[i]));
    }
  }
  return out + "</ul>\n<div class=\"pair\">" +
         scatter(points, memory ? "GiB" : "s", memory ? 0x1p30 : 1.0) +
         error_strips(points, sources) + "</div>\n";
}

std::string summary_table(const Validation& v) {
  Table table = page_table(v.summary, validation_summary_fields,
                           {"source",
                            "quantity",
                            "rows",
                            "simulated",
                            "share",
                            "median",
                            "mean",
                            "bias",
                            {"p90", "90th percentile"},
                            "worst",
                            "mean, all",
                            "inside",
                            "half-width",
                            "score"});
  table.id = "sources";
  table.sortable = true;
  return to_html(table);
}

// Only kinds with rows are listed here; the terminal and JSON list every kind.
std::string skips(const Validation& v) {
  std::vector<result::SkipCount> some;
  std::copy_if(v.skips.begin(), v.skips.end(), std::back_inserter(some),
               [](const result::SkipCount& s) { return s.rows != 0; });
  return some.empty()
             ? paragraph("Every row was simulated.")
             : to_html(page_table(some, skip_fields, {"rows", "reason", "accepted", "meaning"}));
}

Record page_fields(const ValidationRow& r) {
  const bool outside = r.published < r.low || r.published > r.high;
  return {{"", r.id, "row"},
          {"", r.metric, "quantity"},
          {"", r.published, "measured", Show::brief},
          {"", r.predicted, "predicted", Show::brief},
          {"", r.low, "low", Show::brief},
          {"", r.high, "high", Show::brief},
          {"", r.error, "error", Show::change, "", outside},
          {"", r.deviations, "deviations", Show::signed_1},
          {"", (r.reason ? *r.reason + ". " : "") + r.why + not_stated(r), "why", Show::prose}};
}

std::string rows_of(const Validation& v, const std::string& source) {
  std::vector<const ValidationRow*> rows;
  for (const ValidationRow& r : v.rows) {
    if (file_stem(r.file) == source) {
      rows.push_back(&r);
    }
  }
  sort_by_error(rows);
  Table table;
  table.sortable = true;
  table.columns = page_columns(page_fields({}));
  for (const ValidationRow* r : rows) {
    if (r->status != "skipped") {
      table.rows.push_back(page_row(page_fields(*r)));
      continue;
    }
    Cell gap = "";
    gap.span = 6;
    table.rows.push_back({r->id, r->metric, gap, r->reason.value_or("")});
  }
  return details(fmt::format("{} ({} results)", source, rows.size()), to_html(table));
}

}  // namespace

std::string html(const Validation& validation) {
  Page page(
      "Forecasts against published measurements",
      fmt::format("{} results", thousands(static_cast<std::int64_t>(validation.rows.size()))));
  page.lead(conclusion(validation));
  const auto sources = sources_of(validation);
  for (const bool memory : {false, true}) {
    const auto points = points_of(validation, sources, memory);
    if (!points.empty()) {
      page.section(
          memory ? "memory" : "times", memory ? "Memory" : "Times",
          fmt::format(
              "{} rows; dashed lines: errors of 10 %. Rates are shown as the corresponding times.",
              points.size()));
      page.add(picture(points, sources, memory));
    }
  }
  page.section(
      "by-source", "By source",
      "Absolute errors; all: rows that are missing without an accepted reason count with their "
      "source's worst error; inside: rows within their 90 % interval; score: Gneiting "
      "and Raftery's.");
  page.add(summary_table(validation));
  page.section("skipped", "Not simulated");
  page.add(skips(validation));
  page.section("rows", "Every row", "SI units; largest error first; red: outside its interval.");
  for (const std::string& source : sources) {
    page.add(rows_of(validation, source));
  }
  return page.finish();
}

}  // namespace stepcast::report
