// A step's tasks as a page carries them, and as a still picture.
#pragma once

#include <string>
#include <vector>

#include "stepcast/result/report.h"

namespace stepcast::report {

// What a task does, for its colour: 1 forward, 2 backward, 3 recomputed; 0 anything else.
enum class PassKind { none = 0, forward = 1, backward = 2, recompute = 3 };
PassKind pass_of(const program::Task& task, const std::string& label);
// The class and variable of style.css.
const char* colour_of(const program::Task& task, PassKind pass);

// One rank a stage, the busiest; every stage of few, evenly spread ones where all would be more
// tasks than a page should carry; of one stage with more the step's beginning. Slices by stage,
// stream and time.
struct TimelineRow {
  int stage = 0;
  std::uint32_t rank = 0;
  std::uint8_t stream = 0;
  std::vector<std::uint32_t> slices;  // into the trace's
};
struct TimelineRows {
  std::vector<TimelineRow> rows;
  int stages = 0, left_out = 0;
  std::int64_t tasks = 0;  // that the page carries
  std::int64_t until = 0;  // picoseconds: where those arrive; 0: all of the step's
};
TimelineRows timeline_rows(const result::Report::Trace& trace);

// JSON for timeline.js: rows, kinds of task, and base64 of five variable-length integers a task:
// from the end of the one before to its arrival, to its begin, to its end (nanoseconds), its kind,
// and the micro-batch less that of the one before.
std::string timeline_json(const result::Report::Trace& trace, const TimelineRows& rows);

// Compute streams only, in a plot; runs of less than a pixel are joined.
std::string timeline_still(const result::Report::Trace& trace, const TimelineRows& rows,
                           const std::string& told);

}  // namespace stepcast::report
