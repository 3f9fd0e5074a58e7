// One job's forecast as a page: headline, time, timeline, memory, communication, calibration and
// uncertainty.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "../memory/memory_page.h"
#include "../page/page_parts.h"
#include "../record/tables.h"
#include "../run/run_parts.h"
#include "../words/fit_words.h"
#include "../words/job_line.h"
#include "forecast_conclusion.h"
#include "forecast_fields.h"
#include "page_sections.h"

namespace stepcast::report {
namespace {

using result::Estimate;
using result::Report;

std::vector<Tile> headline(const Report& r) {
  std::vector<Tile> out;
  const auto tile = [&](const char* name, const Estimate& e, double per, const std::string& unit,
                        const char* figure, int digits = 4) {
    out.push_back(interval_tile(name, significant(e.value * per, digits) + " " + unit,
                                range(e, per, digits), figure, e));
  };
  const TimeUnit unit = unit_for(r.step_time.value);
  tile("Step time", r.step_time, unit.per_second, std::string(unit.name), "step_time");
  tile("Tokens/s per GPU", r.tokens_per_second_per_gpu, 1, "", "tokens_per_second_per_gpu");
  tile("Model TFLOP/s per GPU", r.model_flops_per_gpu, 1e-12, "", "model_flops_per_gpu");
  tile("MFU", r.mfu, 100, "%", "mfu", 3);
  tile("HFU", r.hfu, 100, "%", "hfu", 3);
  const auto capacity = static_cast<double>(r.capacity.count());
  if (!r.memory.empty()) {
    out.push_back(number_tile("Pipeline bubble", percent(r.bubble_fraction), "of the step",
                              "bubble_fraction", r.bubble_fraction));
  }
  tile("Peak memory, GiB", r.peak, 1 / kGibibyte, "", "peak");
  out.back().value += "of " + gibibytes(capacity);
  out.push_back(number_tile("Fits", std::string(to_string(result::verdict_of(r.fits))),
                            fit_remark(r.fits), "fits",
                            r.fits.probability.value_or(r.fits ? 1.0 : 0.0),
                            r.fits ? Tile::Tone::good : Tile::Tone::bad));
  const auto elsewhere = [&](const char* name, Bytes used, Bytes room, const char* figure) {
    if (used > Bytes(0)) {
      const auto bytes = static_cast<double>(used.count());
      const auto all = static_cast<double>(room.count());
      out.push_back(number_tile(name, gibibytes(bytes), fmt::format("of {} a node", gibibytes(all)),
                                figure, bytes, used > room ? Tile::Tone::bad : Tile::Tone::plain));
    }
  };
  elsewhere("Host memory, GiB", r.host_used, r.host_capacity, "host_used");
  elsewhere("NVMe, GiB", r.nvme_used, r.nvme_capacity, "nvme_used");
  for (Tile& t : out) {
    t.value.erase(t.value.find_last_not_of(' ') + 1);
  }
  return out;
}

// A table under a heading of its own; empty without rows.
std::string titled(const char* heading, const char* id, const char* caption, Table table) {
  table.id = id;
  table.caption = caption;
  return table.rows.empty() ? "" : fmt::format("<h3>{}</h3>\n", heading) + to_html(table);
}

std::string critical_path(const Report& r) {
  const double step = r.step_time.value;
  std::vector<result::PathShare> some;
  std::copy_if(r.critical_path.begin(), r.critical_path.end(), std::back_inserter(some),
               [](const result::PathShare& p) { return p.seconds > 0; });
  const auto row = [&](const result::PathShare& p) -> Record {
    return {{"", p.category, "what"},
            {"", bar({{p.category, p.seconds, duration(p.seconds)}}, step), kNoHeading, Show::bar},
            {"", p.seconds, "time", Show::duration},
            {"", percent(p.seconds / step), "share", Show::number}};
  };
  return titled("Critical path", "critical-path",
                "The critical path of the step, by category of its tasks.", page_table(some, row));
}

std::string doubts(const Report& r) {
  constexpr std::size_t kMaxDoubts = 16;
  double most = 0;
  for (const result::Doubt& d : r.doubts) {
    most = std::max(most, std::abs(d.added()));
  }
  const auto row = [&](const result::Doubt& d) -> Record {
    return {
        {"", d.name, "factor"},
        {"", to_string(d.kind), "kind"},
        {"", bar({{"s-0", std::abs(d.added()), duration(d.added())}}, most), kNoHeading, Show::bar},
        {"", d.added(), "adds", Show::duration},
        {"", d.deviation, "deviation", Show::percent},
        {"", d.source, "source", Show::prose}};
  };
  std::vector<result::Doubt> some = r.doubts;
  some.resize(std::min(some.size(), kMaxDoubts));
  return titled(
      "What the interval is made of", "doubts",
      "Factors that are not known exactly, and what one standard deviation of each adds to the "
      "step; the 90 % interval is 1.645 deviations of all together.",
      page_table(some, row));
}

std::string calibration(const Report& r) {
  return titled("Calibration", "calibration",
                "Measured points behind the times; residual: standard deviation of the fit.",
                page_table(r.calibration, calibration_use_fields,
                           {"curves", "device", "residual", "provenance"}));
}

void add_advice(Page& page, const Report& r) {
  if (r.advice.empty() && r.notes.empty()) {
    return;
  }
  page.section("advice", r.advice.empty() ? "Notes" : "Advice and notes");
  if (!r.advice.empty()) {
    const auto row = [&](const result::Advice& a) { return advice_fields(a, r.step_time.value); };
    Table table =
        page_table(r.advice, row, {"--set", "peak, GiB", "fits", "step time", "against this job"});
    table.id = "advice-table";
    table.caption = "Changes with which the job fits in memory, the fastest first.";
    page.add(to_html(table));
  }
  if (!r.notes.empty()) {
    std::string list = "<ul class=\"notes\">";
    for (const std::string& note : r.notes) {
      list += "<li>" + html_text(note) + "</li>";
    }
    page.add(list + "</ul>\n");
  }
}

}  // namespace

std::string html(const Report& report, const ForecastDetails& details_of) {
  Page page(report.title.empty() ? "Forecast" : report.title,
            job_line(report.job_json, report.engine.ranks));
  page.style("forecast.css");
  page.section("headline", "Headline",
               conclusion(report) + (report.engine.fidelity == "bound"
                                         ? " A lower bound; nothing was simulated."
                                         : " Below each figure is its 90 % interval."));
  page.add(to_html(headline(report)));
  add_run(page, details_of.run);
  add_advice(page, report);
  add_time(page, report);
  if (report.trace) {
    add_timeline(page, report);
  }
  add_memory(page, report, details_of.memory);
  add_communication(page, report);
  add_links(page, details_of.links);
  const std::string basis = critical_path(report) + doubts(report) + calibration(report);
  if (!basis.empty()) {
    page.section("basis", "Basis of the forecast");
    page.add(basis);
  }
  if (!details_of.job.empty()) {
    page.section("job", "The job", "Every value of the job, with its origin.");
    page.add(
        details("Resolved job", "<pre tabindex=\"0\">" + html_text(details_of.job) + "</pre>\n"));
  }
  if (report.engine.tasks > 0) {
    page.foot(engine_line(report.engine) + ".");
  }
  if (report.trace) {
    page.script("timeline_rows.js");
    page.script("timeline_strip.js");
    page.script("timeline.js");
  }
  return page.finish();
}

}  // namespace stepcast::report
