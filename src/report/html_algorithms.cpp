// Search algorithms side by side, as one page.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "format.h"
#include "page_parts.h"
#include "stepcast/report/pages.h"
#include "stepcast/report/report.h"

namespace stepcast::report {
namespace {

using result::AlgorithmAnswer;
using result::Algorithms;

std::vector<Part> parts_of(const result::Strategy& s) {
  const auto part = [&](const char* colour, const char* name, Time t) {
    return Part{colour, to_seconds(t), fmt::format("{}: {}", name, duration(to_seconds(t)))};
  };
  return {part("compute", "compute", s.compute), part("recompute", "recompute", s.recompute),
          part("tensor", "exposed communication", s.exposed), part("other", "other", s.other),
          part("bubble", "bubble", s.bubble)};
}

}  // namespace

std::string html(const Algorithms& a) {
  Page page("Search algorithms", a.title);
  const AlgorithmAnswer* best = nullptr;
  double most = 0;
  for (const AlgorithmAnswer& x : a.answers) {
    if (x.found) {
      most = std::max({most, x.strategy.step_time.value, x.strategy.step_time.high, x.predicted});
      if (x.strategy.fits && (best == nullptr || x.strategy.objective < best->strategy.objective)) {
        best = &x;
      }
    }
  }
  page.section("best", "The answers", "Each algorithm's answer, forecast by the engine.");
  if (best != nullptr) {
    const result::Strategy& s = best->strategy;
    page.add(to_html(std::vector<Tile>{{"Best", best->name, "", "", {}},
                                       {"Step time",
                                        duration(s.step_time.value),
                                        between(s.step_time),
                                        "step_time",
                                        {s.step_time.value, s.step_time.low, s.step_time.high}},
                                       {"MFU", percent(s.mfu), "", "mfu", {s.mfu}},
                                       {"Peak memory",
                                        gibibytes(s.peak.value) + " GiB",
                                        "",
                                        "peak",
                                        {s.peak.value, s.peak.low, s.peak.high}}}));
    page.add("<pre class=\"fold\" tabindex=\"0\">" + html_text(set_options(s.overrides)) +
             "</pre>\n");
  }
  page.add(legend({{"compute", "compute", ""},
                   {"recompute", "recompute", ""},
                   {"tensor", "exposed communication", ""},
                   {"other", "other", ""},
                   {"bubble", "bubble", ""}}));
  Table table;
  table.id = "algorithms";
  table.sortable = true;
  table.caption = "The whisker is the 90 % interval.";
  table.columns = {text_column("algorithm"),
                   number_column("step time"),
                   number_column("to best"),
                   number_column("its own", "what the algorithm's own cost model says"),
                   number_column("peak GiB"),
                   text_column("fits"),
                   number_column("tried"),
                   text_column("of"),
                   bar_column("where the step goes")};
  for (const AlgorithmAnswer& x : a.answers) {
    // Of the strategy that was forecast, where it says so; else of its plan.
    const double estimate = x.own.step > 0 ? x.own.step : x.predicted;
    const Cell own = estimate > 0 ? seconds_cell(estimate) : Cell("");
    if (!x.found) {
      Cell why(x.why_not);
      table.rows.push_back(
          {x.name, "none", "", own, "", "", count_cell(x.tried), x.tried_unit, why});
      continue;
    }
    const result::Strategy& s = x.strategy;
    Cell fits = s.fits ? "yes" : "no";
    fits.bad = !s.fits;
    table.rows.push_back(
        {x.name, seconds_cell(s.step_time.value),
         best != nullptr ? change_cell(s.objective / best->strategy.objective - 1) : Cell(""), own,
         gib_cell(s.peak.value), fits, count_cell(x.tried), x.tried_unit,
         markup_cell(interval_bar(parts_of(s), s.step_time.low, s.step_time.high, most))});
  }
  page.add(to_html(table));

  page.section("strategies", "The strategies", "As a job states them, and what it cannot state.");
  Table plans;
  plans.columns = {text_column("algorithm"), prose_column("job"), prose_column("in its own terms"),
                   prose_column("what a job cannot say of that")};
  for (const AlgorithmAnswer& x : a.answers) {
    plans.rows.push_back({x.name, fmt::format("{}", fmt::join(x.strategy.overrides, " ")), x.plan,
                          fmt::format("{}", fmt::join(x.losses, "; "))});
  }
  page.add(to_html(plans));
  page.add(embedded_json("data", json(a)));
  return page.finish();
}

}  // namespace stepcast::report
