// One job's forecast as a page: headline, time, timeline, memory, communication, what it rests on.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "format.h"
#include "html_parts.h"
#include "job_line.h"
#include "run_parts.h"

namespace stepcast::report {
namespace {

using result::Estimate;
using result::Report;
using Kind = Column::Kind;

constexpr double kPerGiB = 1.0 / (1 << 30);

std::string range(const Estimate& e, double per, int digits = 4) {
  return e.low == e.high ? ""
                         : fmt::format("{} to {}", significant(e.low * per, digits),
                                       significant(e.high * per, digits));
}

std::vector<Tile> headline(const Report& r) {
  std::vector<Tile> out;
  const auto tile = [&](const char* name, const Estimate& e, double per, const std::string& unit,
                        const char* figure, int digits = 4) {
    out.push_back({name,
                   significant(e.value * per, digits) + " " + unit,
                   range(e, per, digits),
                   figure,
                   {e.value, e.low, e.high},
                   Tile::Tone::plain});
  };
  const TimeUnit unit = unit_for(r.step_time.value);
  tile("Step time", r.step_time, unit.per_second, std::string(unit.name), "step_time");
  tile("Tokens/s per GPU", r.tokens_per_second_per_gpu, 1, "", "tokens_per_second_per_gpu");
  tile("Model TFLOP/s per GPU", r.model_flops_per_gpu, 1e-12, "", "model_flops_per_gpu");
  tile("MFU", r.mfu, 100, "%", "mfu", 3);
  tile("HFU", r.hfu, 100, "%", "hfu", 3);
  const auto capacity = static_cast<double>(r.capacity.count());
  if (!r.memory.empty()) {
    out.push_back({"Pipeline bubble",
                   percent(r.bubble_fraction),
                   "of the step",
                   "bubble_fraction",
                   {r.bubble_fraction},
                   Tile::Tone::plain});
  }
  tile("Peak memory, GiB", r.peak, kPerGiB, "", "peak");
  out.back().value += "of " + gibibytes(capacity);
  const double spare = capacity - r.peak.value;
  out.push_back(
      {"Fits",
       r.fits ? "yes" : "no",
       fmt::format("{} GiB {}", gibibytes(std::abs(spare)), spare >= 0 ? "to spare" : "too much"),
       "fits",
       {r.fits ? 1.0 : 0.0},
       r.fits ? Tile::Tone::good : Tile::Tone::bad});
  const auto elsewhere = [&](const char* name, Bytes used, Bytes room, const char* figure) {
    if (used > Bytes(0)) {
      const auto bytes = static_cast<double>(used.count());
      out.push_back({name,
                     gibibytes(bytes),
                     fmt::format("of {} a node", gibibytes(static_cast<double>(room.count()))),
                     figure,
                     {bytes},
                     used > room ? Tile::Tone::bad : Tile::Tone::plain});
    }
  };
  elsewhere("Host memory, GiB", r.host_used, r.host_capacity, "host_used");
  elsewhere("NVMe, GiB", r.nvme_used, r.nvme_capacity, "nvme_used");
  for (Tile& t : out) {
    t.value.erase(t.value.find_last_not_of(' ') + 1);
  }
  return out;
}

std::string critical_path(const Report& r) {
  Table table;
  table.id = "critical-path";
  table.caption = "The longest chain of tasks through the step, by what they do.";
  table.columns = {{"what", Kind::text, ""},
                   {"", Kind::bar, ""},
                   {"time", Kind::number, ""},
                   {"share", Kind::number, ""}};
  for (const result::PathShare& p : r.critical_path) {
    if (p.seconds <= 0) {
      continue;
    }
    Cell drawn = bar({{p.category, p.seconds, duration(p.seconds)}}, r.step_time.value);
    drawn.markup = true;
    table.rows.push_back({p.category, drawn, Cell(duration(p.seconds), p.seconds),
                          percent(p.seconds / r.step_time.value)});
  }
  return table.rows.empty() ? "" : "<h3>Critical path</h3>\n" + to_html(table);
}

std::string doubts(const Report& r) {
  Table table;
  table.id = "doubts";
  table.caption =
      "Factors that are not known exactly, and what one standard deviation of each adds to the "
      "step; the 90 % interval is 1.645 deviations of all together.";
  table.columns = {
      {"factor", Kind::text, ""}, {"kind", Kind::text, ""},        {"", Kind::bar, ""},
      {"adds", Kind::number, ""}, {"deviation", Kind::number, ""}, {"source", Kind::prose, ""}};
  constexpr std::size_t kMost = 16;
  double most = 0;
  for (const result::Doubt& d : r.doubts) {
    most = std::max(most, std::abs(d.added()));
  }
  for (const result::Doubt& d : r.doubts) {
    if (table.rows.size() == kMost) {
      break;
    }
    Cell drawn = bar({{"s-0", std::abs(d.added()), duration(d.added())}}, most);
    drawn.markup = true;
    table.rows.push_back({d.name, to_string(d.kind), drawn, Cell(duration(d.added()), d.added()),
                          Cell(percent(d.deviation), d.deviation), d.source});
  }
  return table.rows.empty() ? "" : "<h3>What the interval is made of</h3>\n" + to_html(table);
}

std::string calibration(const Report& r) {
  Table table;
  table.id = "calibration";
  table.caption = "Measured points behind the times; residual: standard deviation of the fit.";
  table.columns = {{"curves", Kind::text, ""},
                   {"device", Kind::text, ""},
                   {"residual", Kind::number, ""},
                   {"provenance", Kind::prose, ""}};
  for (const result::CalibrationUse& c : r.calibration) {
    table.rows.push_back({c.file, c.device, Cell(percent(c.residual), c.residual), c.provenance});
  }
  return table.rows.empty() ? "" : "<h3>Calibration</h3>\n" + to_html(table);
}

void add_advice(Page& page, const Report& r) {
  if (r.advice.empty() && r.notes.empty()) {
    return;
  }
  page.section("advice", r.advice.empty() ? "Notes" : "Advice and notes");
  if (!r.advice.empty()) {
    Table table;
    table.id = "advice-table";
    table.caption = "What makes it fit, cheapest first.";
    table.columns = {{"--set", Kind::text, ""},
                     {"peak, GiB", Kind::number, ""},
                     {"step time", Kind::number, ""},
                     {"against this job", Kind::number, ""}};
    for (const result::Advice& a : r.advice) {
      const double step = to_seconds(a.step_time);
      const auto peak = static_cast<double>(a.peak.count());
      table.rows.push_back({a.change, Cell(gibibytes(peak), peak), Cell(duration(step), step),
                            fmt::format("{:+.1f} %", 100 * (step / r.step_time.value - 1))});
    }
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
               report.engine.fidelity == "bound" ? "A lower bound; nothing was simulated."
                                                 : "One training step; below each figure its 90 % "
                                                   "interval.");
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
    page.section("basis", "What it rests on");
    page.add(basis);
  }
  if (!details_of.job.empty()) {
    page.section("job", "The job", "Every value with where it came from.");
    page.add(
        details("Resolved job", "<pre tabindex=\"0\">" + html_text(details_of.job) + "</pre>\n"));
  }
  const result::EngineFacts& e = report.engine;
  if (e.tasks > 0) {
    page.foot(fmt::format(
        "{} simulation of {} ranks in {} classes: {} tasks, {} events, {} steps{}.", e.fidelity,
        thousands(e.ranks), thousands(e.classes), thousands(e.tasks), thousands(e.events), e.steps,
        e.periodic ? "" : "; no steady period: their mean"));
  }
  if (report.trace) {
    page.script("timeline_rows.js");
    page.script("timeline_strip.js");
    page.script("timeline.js");
  }
  return page.finish();
}

}  // namespace stepcast::report
