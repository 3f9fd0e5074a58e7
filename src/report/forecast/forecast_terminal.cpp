// A forecast in the order in which a capacity planner asks: step time, efficiency, whether it fits;
// the parts of the time; the parts of memory; exposed communication; and the calibration that it
// rests on.
#include <fmt/format.h>

#include <algorithm>

#include "../record/tables.h"
#include "../run/run_parts.h"
#include "../words/job_line.h"
#include "../words/sentences.h"
#include "forecast_conclusion.h"
#include "forecast_fields.h"
#include "stepcast/report/advice.h"
#include "stepcast/report/report.h"
#include "stepcast/report/run_cost.h"
#include "terminal_sections.h"

namespace stepcast::report {
namespace {

using result::Report;

constexpr int kMinWidth = 80;  // narrower terminals break the lines
constexpr std::size_t kMaxCurves = 6;

std::string notes_text(const Report& report, std::size_t from, const Paint& paint, int width) {
  std::string out;
  if (report.notes.size() > from) {
    out += heading(paint, "Notes");
    for (std::size_t i = from; i < report.notes.size(); ++i) {
      out += "  - " + wrap(report.notes[i], width, 4) + "\n";
    }
  }
  return out;
}

std::string foundations(const Report& report, const Paint& paint, int width) {
  std::string out;
  if (!report.calibration.empty()) {
    const std::size_t shown = std::min(report.calibration.size(), kMaxCurves);
    std::vector<result::CalibrationUse> some(
        report.calibration.begin(),
        report.calibration.begin() + static_cast<std::ptrdiff_t>(shown));
    for (result::CalibrationUse& use : some) {
      use.file = shorten(use.file, 40);
    }
    out += heading(paint, "Calibration") +
           text_table(some, calibration_use_fields, {"curves", "device", "residual", "provenance"})
               .text(paint, width);
    if (report.calibration.size() > shown) {
      out += fmt::format("  and {} more\n", report.calibration.size() - shown);
    }
    out += '\n';
  }
  if (!report.notes.empty()) {
    out += notes_text(report, 0, paint, width) + '\n';
  }
  return report.engine.events == 0
             ? out
             : out + paint("2", wrap(engine_line(report.engine), width, 0)) + "\n";
}

}  // namespace

std::string terminal(const Report& report, bool colour, int width) {
  return terminal(report, std::nullopt, colour, width);
}

std::string terminal(const Report& report, const std::optional<result::RunCost>& run, bool colour,
                     int width) {
  width = std::max(width, kMinWidth);
  const Paint paint{colour};
  std::string out = opening(paint, conclusion(report), report.title, width);
  if (const std::string job = job_line(report.job_json, report.engine.ranks); !job.empty()) {
    out += wrap(job, width, 0) + "\n";
  }
  if (const std::string facts = job_facts(report); !facts.empty()) {
    out += wrap(facts, width, 0) + "\n";
  }
  out += headlines_text(report, paint);
  for (const std::string& section :
       {run ? run_text(*run, paint, width) : std::string(), breakdown_text(report, paint, width),
        stage_memory_text(report, paint, width), traffic_text(report, paint, width),
        foundations(report, paint, width)}) {
    if (!section.empty()) {
      out += "\n" + section;
    }
  }
  return out + advice_text(report, report.notes.size(), colour, width);
}

std::string advice_text(const Report& report, std::size_t note, bool colour, int width) {
  width = std::max(width, kMinWidth);
  const Paint paint{colour};
  std::string out;
  if (!report.advice.empty()) {
    const auto row = [&](const result::Advice& a) {
      return advice_fields(a, report.step_time.value);
    };
    out +=
        "\n" + heading(paint, "Changes with which the job fits in memory, the fastest first") +
        text_table(report.advice, row, {"--set", "peak", "fits", "step time", "against this job"})
            .text(paint, width);
  }
  const std::string notes = notes_text(report, note, paint, width);
  return notes.empty() ? out : out + "\n" + notes;
}

}  // namespace stepcast::report
