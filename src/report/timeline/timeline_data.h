// A step's tasks as data of a page, and as a still picture.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stepcast/result/report.h"

namespace stepcast::report {

// The kind of pass that a task belongs to, for its colour.
enum class PassKind { none = 0, forward = 1, backward = 2, recompute = 3 };
PassKind pass_of(const program::Task& task, const std::string& label);
// The class and variable of style.css.
const char* colour_of(const program::Task& task, PassKind pass);

// Of tasks that belong to no micro-batch (program::Task).
inline constexpr std::uint16_t kNoMicroBatch = 0xffff;

// The rows of a timeline. Each stage is shown by its busiest rank. If all stages have more tasks
// than a page should hold, only evenly spread stages are shown; if even one stage has more, only
// the beginning of its step. Slices are sorted by stage, stream and time.
struct TimelineRow {
  int stage = 0;
  program::RankId rank;
  program::StreamIndex stream;
  std::vector<std::uint32_t> slices;  // indices into the trace's slices
};
struct TimelineRows {
  std::vector<TimelineRow> rows;
  int stages = 0, left_out = 0;
  std::int64_t tasks = 0;  // number of tasks that the page holds
  Time until{0};           // only tasks that arrive before are shown; 0: all of the step
};
const program::Program& program_of(const result::Report::Trace& trace, std::uint32_t rank);
TimelineRows timeline_rows(const result::Report::Trace& trace);

// JSON for timeline.js: rows, kinds of task, and base64 of five variable-length integers for each
// task: the time from the end of the previous task to its arrival, from there to its begin, from
// there to its end (nanoseconds), its kind, and its micro-batch less that of the previous task.
std::string timeline_json(const result::Report::Trace& trace, const TimelineRows& rows);

// A still picture of the compute streams; runs of less than a pixel are joined. `description`: a
// description for readers who cannot see it.
std::string timeline_still(const result::Report::Trace& trace, const TimelineRows& rows,
                           const std::string& description);

}  // namespace stepcast::report
