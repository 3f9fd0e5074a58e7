// Validation as one page: everything in it, light and dark by the reader's setting.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "format.h"
#include "plot.h"
#include "scatter_validation.h"
#include "stepcast/report/report.h"

namespace stepcast::report {
namespace {

using result::Validation;
using result::ValidationRow;
using result::ValidationSummary;

constexpr const char* kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Stepcast: forecasts against published measurements</title>
<style>
  :root { color-scheme: light dark; --paper: #ffffff; --ink: #222222; --faint: #666666; --line: #dddddd; --band: #f4f4f2; --bad: #b3261e; }
  @media (prefers-color-scheme: dark) {
    :root { --paper: #16181c; --ink: #e6e6e6; --faint: #a0a0a0; --line: #3a3d44; --band: #1f2227; --bad: #ff8a80; } }
  body { background: var(--paper); color: var(--ink); font: 14px/1.4 sans-serif; margin: 24px auto; max-width: 1520px; padding: 0 16px; }
  h1 { font-size: 20px; } h2 { font-size: 16px; margin-top: 28px; } p { color: var(--faint); margin: 4px 0 10px; }
  table { border-collapse: collapse; font-size: 12px; font-variant-numeric: tabular-nums; }
  th, td { text-align: right; padding: 2px 8px; border-bottom: 1px solid var(--line); white-space: nowrap; }
  th { color: var(--faint); font-weight: normal; } .t { text-align: left; } .w { white-space: normal; min-width: 280px; }
  tbody tr:hover { background: var(--band); } .bad { color: var(--bad); }
  .wide { overflow-x: auto; } details { margin: 6px 0; } summary { cursor: pointer; }
  svg { max-width: 100%; height: auto; } svg text { fill: var(--ink); font-size: 11px; }
  .grid { stroke: var(--line); } .diagonal { stroke: var(--ink); stroke-width: 1.2; } .tenth { stroke: var(--faint); stroke-dasharray: 3 3; }
  .tick { stroke: var(--ink); stroke-opacity: 0.35; stroke-width: 1.5; } .median { stroke: #d55e00; stroke-width: 3; }
  .pair { display: flex; flex-wrap: wrap; gap: 24px; align-items: flex-start; }
  .legend { display: flex; flex-wrap: wrap; gap: 2px 18px; font-size: 12px; margin-bottom: 8px; }
  .legend svg { width: 12px; height: 12px; vertical-align: -1px; margin-right: 5px; }
</style></head><body>
<h1>Forecasts against published measurements</h1>
)";

std::string name_of(const std::string& file) { return std::filesystem::path(file).stem().string(); }

std::string cell(const std::string& text, const char* kind = "") {
  return fmt::format("<td{}>{}</td>", *kind != 0 ? fmt::format(" class=\"{}\"", kind) : "",
                     xml_text(text));
}

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

std::string pictures(const Validation& v) {
  const auto sources = sources_of(v);
  std::string out;
  for (const bool of_memory : {false, true}) {
    const auto points = points_of(v, sources, of_memory);
    if (points.empty()) {
      continue;
    }
    out += fmt::format(
        "<h2>{}</h2>\n<p>{} rows; dashed: a tenth off. Rates are shown as the time "
        "that they follow from.</p>\n<div class=\"legend\">",
        of_memory ? "Memory" : "Times", points.size());
    for (std::size_t i = 0; i < sources.size(); ++i) {
      if (std::any_of(points.begin(), points.end(), [&](const auto& p) { return p.source == i; })) {
        out += fmt::format("<span><svg viewBox=\"-6 -6 12 12\">{}</svg>{}</span>",
                           scatter_mark(i, 0, 0), xml_text(sources[i]));
      }
    }
    out += "</div>\n<div class=\"pair\">" +
           scatter(points, of_memory ? "GiB" : "s", of_memory ? 0x1p30 : 1.0) +
           error_strips(points, sources) + "</div>\n";
  }
  return out;
}

std::string summary(const Validation& v) {
  std::string out =
      "<h2>By source</h2>\n<p>Absolute errors; all: with every row that is missing without an "
      "accepted reason at its source's worst error; inside: rows within their 90 % interval; "
      "score: "
      "Gneiting and Raftery's.</p>\n<div class=\"wide\"><table><thead><tr><th "
      "class=\"t\">source</th>"
      "<th class=\"t\">quantity</th><th>rows</th><th>simulated</th><th>share</th><th>median</th>"
      "<th>mean</th><th>bias</th><th>90th percentile</th><th>worst</th><th>mean, all</th>"
      "<th>inside</th><th>half-width</th><th>score</th></tr></thead><tbody>\n";
  for (const ValidationSummary& s : v.summary) {
    const auto signed_percent = [](double f) { return fmt::format("{:+.1f} %", 100 * f); };
    out += "<tr>" + cell(name_of(s.file), "t") + cell(s.metric, "t") + cell(thousands(s.rows)) +
           cell(thousands(s.simulated)) +
           cell(percent(s.simulated_share()), s.simulated_share() < 0.95 ? "bad" : "") +
           cell(percent(s.median)) + cell(percent(s.mean)) + cell(signed_percent(s.bias)) +
           cell(percent(s.p90)) +
           fmt::format("<td title=\"{}\">{}</td>", xml_text(s.worst_id), signed_percent(s.worst)) +
           cell(percent(s.mean_of_all)) +
           cell(percent(s.coverage), s.simulated > 0 && s.coverage < 0.7 ? "bad" : "") +
           cell(percent(s.half_width)) + cell(percent(s.interval_score)) + "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string skips(const Validation& v) {
  std::string out =
      "<h2>Not simulated</h2>\n<table><thead><tr><th>rows</th><th class=\"t\">reason</th>"
      "<th class=\"t\">accepted</th><th class=\"t\">meaning</th></tr></thead><tbody>\n";
  for (const result::SkipCount& s : v.skips) {
    out += "<tr>" + cell(thousands(s.rows)) + cell(s.kind, "t") +
           cell(s.accepted ? "yes" : "no", s.accepted || s.rows == 0 ? "t" : "t bad") +
           cell(s.meaning, "t w") + "</tr>\n";
  }
  return out + "</tbody></table>\n";
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
  std::string out = fmt::format(
      "<details><summary>{} ({} results)</summary><div class=\"wide\"><table><thead><tr>"
      "<th class=\"t\">row</th><th class=\"t\">quantity</th><th>measured</th><th>predicted</th>"
      "<th>low</th><th>high</th><th>error</th><th>deviations</th><th class=\"t\">why</th></tr>"
      "</thead><tbody>\n",
      xml_text(source), rows.size());
  for (const ValidationRow* r : rows) {
    out += "<tr>" + cell(r->id, "t") + cell(r->metric, "t");
    if (r->status == "skipped") {
      out += "<td colspan=\"6\"></td>" + cell(r->reason.value_or(""), "t w") + "</tr>\n";
      continue;
    }
    const auto number = [](double value) { return cell(fmt::format("{:.4g}", value)); };
    std::string why = r->reason ? *r->reason + ". " : "";
    why += r->why;
    for (std::size_t i = 0; i < r->open.size(); ++i) {
      why += (i == 0 ? "; not stated: " : ", ") + r->open[i];
    }
    const bool inside = r->low <= r->published && r->published <= r->high;
    out += number(r->published) + number(r->predicted) + number(r->low) + number(r->high) +
           cell(fmt::format("{:+.1f} %", 100 * r->error), inside ? "" : "bad") +
           cell(fmt::format("{:+.1f}", r->deviations)) + cell(why, "t w") + "</tr>\n";
  }
  return out + "</tbody></table></div></details>\n";
}

}  // namespace

std::string html(const Validation& validation) {
  std::string out = kHead + pictures(validation) + summary(validation) + skips(validation) +
                    "<h2>Every row</h2>\n<p>SI units; largest error first; red: outside its "
                    "interval.</p>\n";
  for (const std::string& source : sources_of(validation)) {
    out += rows_of(validation, source);
  }
  return out + "</body></html>\n";
}

}  // namespace stepcast::report
