// The parts of the step's time, by stage; and its timeline.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include "../page/page_parts.h"
#include "../timeline/timeline_data.h"
#include "page_sections.h"
#include "time_kinds.h"

namespace stepcast::report {
namespace {

using result::StageBreakdown;

}  // namespace

void add_time(Page& page, const result::Report& report) {
  if (report.breakdown.empty()) {
    return;
  }
  page.section(
      "time", "Where the step goes",
      "Time of each pipeline stage's compute stream. Communication counts where it is exposed; "
      "slowdown: kernels beside communication; stall: waiting for peers or memory.");
  std::array<double, kTimeKinds.size()> sums{};
  for (const StageBreakdown& b : report.breakdown) {
    for (std::size_t i = 0; i < kTimeKinds.size(); ++i) {
      sums[i] += to_seconds(result::part_of(b, kTimeKinds[i].category));
    }
  }
  const double whole = std::accumulate(sums.begin(), sums.end(), 0.0);
  std::vector<Mark> marks;
  std::vector<const TimeKind*> shown;
  for (std::size_t i = 0; i < kTimeKinds.size() && whole > 0; ++i) {
    if (sums[i] / whole >= kMinShare) {
      const std::string name(kTimeKinds[i].kind.name);
      marks.push_back({name, name, percent(sums[i] / whole)});
      shown.push_back(&kTimeKinds[i]);
    }
  }
  page.add(legend(marks));
  Table table;
  table.id = "breakdown";
  table.columns = {{"stage", Column::Kind::number, ""}, {"", Column::Kind::bar, ""}};
  for (const TimeKind* kind : shown) {
    table.columns.push_back({std::string(kind->kind.name), Column::Kind::number,
                             kind->sum == TimeKind::Sum::exposed ? "exposed communication" : ""});
  }
  for (const StageBreakdown& b : report.breakdown) {
    std::vector<Part> parts;
    double sum = 0;
    for (const TimeKind& kind : kTimeKinds) {
      const double s = to_seconds(result::part_of(b, kind.category));
      sum += s;
      if (s > 0) {
        const std::string name(kind.kind.name);
        parts.push_back({name, s, fmt::format("{} {}", name, duration(s))});
      }
    }
    std::vector<Cell> row = {Cell(std::to_string(b.stage), b.stage), markup_cell(bar(parts, sum))};
    for (const TimeKind* kind : shown) {
      const double s = to_seconds(result::part_of(b, kind->category));
      row.emplace_back(percent(sum > 0 ? s / sum : 0), s);
      row.back().hint = duration(s);
    }
    table.rows.push_back(std::move(row));
  }
  page.add(to_html(table));
}

void add_timeline(Page& page, const result::Report& report) {
  const result::Report::Trace& trace = *report.trace;
  const TimelineRows rows = timeline_rows(trace);
  if (rows.tasks == 0) {
    return;
  }
  page.section(
      "timeline", "Timeline",
      fmt::format("One step, {} tasks on {} {}, the busiest rank of each{}. Where a compute stream "
                  "is idle, the time is bubble or exposed communication.",
                  thousands(rows.tasks), rows.stages, rows.stages == 1 ? "stage" : "stages",
                  rows.left_out > 0
                      ? fmt::format("; {} stages between them left out", rows.left_out)
                      : ""));
  std::set<std::string> colours;  // colours that occur in the picture
  for (const TimelineRow& row : rows.rows) {
    const program::Program& p = trace.world.programs[trace.world.ranks[row.rank].program];
    for (const std::uint32_t i : row.slices) {
      const program::Task& task = p.tasks[trace.timeline.slices[i].task];
      colours.insert(colour_of(task, pass_of(task, p.labels[task.label])));
    }
  }
  std::vector<Mark> marks;
  for (const char* name : {"forward", "backward", "recompute", "compute", "optimizer", "tensor",
                           "context", "expert", "pipeline", "data", "offload", "other"}) {
    if (colours.count(name) > 0) {
      marks.push_back({name, name, ""});
    }
  }
  marks.push_back({"bubble", "idle", ""});
  page.add(
      "<div class=\"live\" id=\"timeline-live\">\n<div class=\"tools\">"
      "<button type=\"button\" data-do=\"in\" aria-label=\"Zoom in\">+</button>"
      "<button type=\"button\" data-do=\"out\" aria-label=\"Zoom out\">−</button>"
      "<button type=\"button\" data-do=\"all\">Whole step</button>"
      "<label>Colour by <select><option value=\"kind\">kind of work</option>"
      "<option value=\"micro-batch\">micro-batch</option></select></label>"
      "<label><input type=\"checkbox\"> communication streams</label></div>\n"
      "<canvas tabindex=\"0\" role=\"application\" aria-roledescription=\"timeline\" "
      "aria-label=\"Timeline of the step by stage and stream\" "
      "aria-describedby=\"timeline-keys\"></canvas>\n"
      "<p class=\"facts\"></p><div class=\"unseen\" aria-live=\"polite\"></div>\n"
      "<p id=\"timeline-keys\" class=\"keys\">Drag to pan, Ctrl and wheel or pinch to zoom, "
      "double-click to look closer. Keys: arrows left and right pan, + and − zoom, Enter and "
      "Shift-Enter step through tasks, up and down change stream, Home shows the whole step. By "
      "micro-batch: light forward, dark backward, grey with a rule recomputed.</p>\n</div>\n");
  std::string description =
      fmt::format("Timeline of {} stages over {}. ", rows.stages, duration(report.step_time.value));
  for (const StageBreakdown& b : report.breakdown) {
    const double step = report.step_time.value > 0 ? report.step_time.value : 1;
    description +=
        fmt::format("Stage {}: bubble {}. ", b.stage, percent(to_seconds(b.bubble) / step));
    if (b.stage >= 15) {
      break;
    }
  }
  page.add("<div class=\"still\">\n" +
           figure(timeline_still(trace, rows, description),
                  "Compute streams; runs shorter than a thousandth of the step are joined.") +
           "</div>\n");
  page.add("<p class=\"keys\">Kinds of work and of communication:</p>" + legend(marks));
  page.add(embedded_json("timeline-data", timeline_json(trace, rows)));
}

}  // namespace stepcast::report
