// Writers of results: JSON, text for a terminal, pages and pictures.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "stepcast/base/output_file.h"
#include "stepcast/result/algorithms.h"
#include "stepcast/result/calibration.h"
#include "stepcast/result/collective.h"
#include "stepcast/result/compare.h"
#include "stepcast/result/explanation.h"
#include "stepcast/result/goodput.h"
#include "stepcast/result/kernel_calibration.h"
#include "stepcast/result/memory.h"
#include "stepcast/result/report.h"
#include "stepcast/result/search.h"
#include "stepcast/result/site_calibration.h"
#include "stepcast/result/trace.h"
#include "stepcast/result/validation.h"
#include "stepcast/schedule/schedule.h"

namespace stepcast::report {

std::string json(const result::Report& report);
// The time of each stage by what it goes into, as bars.
std::string svg(const result::Report& report);
std::string json(const result::Validation& validation);
std::string json(const schedule::Played& played);

// A report for people, `width` columns wide, that starts with what a capacity planner asks first.
std::string terminal(const result::Report& report, bool colour, int width = 100);
std::string terminal(const result::Validation& validation, bool colour);

// Where the time goes, what is uncertain, and how a measured step compares.
std::string terminal(const result::Explanation& explanation, bool colour, int width = 100);
std::string json(const result::Explanation& explanation);

// A validation as one self-contained page: a scatter of predicted against measured, a strip of errors by
// source, the summary, rows left out, every row. As Markdown: summary, worst rows of each source, rows left
// out. As CSV: a line per row.
std::string html(const result::Validation& validation);
std::string markdown(const result::Validation& validation);
std::string csv(const result::Validation& validation);

// A predicted collective in the format of nccl-tests, with the same figures out of place and in place; and as JSON with
// NCCL's choice of algorithm and protocol.
std::string nccl_tests(const result::CollectiveTable& table);
std::string json(const result::CollectiveTable& table);
// The same with measured time, error and 90 % interval in each row: one table per collective and
// placement.
std::string compared(const std::vector<result::CollectiveTable>& tables);
// Every measured point beside its prediction, in microseconds.
std::string points(const result::Validation& validation, bool colour);
// Bus bandwidth over size: a line per table with its 90 % band, and measured points as dots.
std::string svg(const std::vector<result::CollectiveTable>& tables);

// Logs, verdicts and curves of a calibration.
std::string terminal(const result::Calibration& calibration, bool colour);
std::string json(const result::Calibration& calibration);

// Fits of measured kernels, errors before and after, and what was left out.
std::string terminal(const result::KernelCalibration& calibration, bool colour);
std::string json(const result::KernelCalibration& calibration);

// A site fitted to measured steps: parameters, rows before and after, rows left out.
std::string terminal(const result::SiteCalibration& site, bool colour);
std::string json(const result::SiteCalibration& site);

// One job under many training systems: a table, JSON, and bars of step time.
std::string terminal(const result::Comparison& comparison, bool colour, int width = 100);
std::string json(const result::Comparison& comparison);
std::string svg(const result::Comparison& comparison);

// The best strategy and its ranking: text and JSON.
std::string terminal(const result::Search& search, bool colour, int width = 100);
std::string json(const result::Search& search);
// Time against memory: the ranking, and the front of what no other beats in both.
std::string svg(const result::Search& search);
std::string terminal(const result::Algorithms& algorithms, bool colour, int width = 100);
std::string json(const result::Algorithms& algorithms);

// A long run with failures: shares of its wall clock, as text and JSON.
std::string terminal(const result::Goodput& goodput, bool colour, int width = 100);
std::string json(const result::Goodput& goodput);

// The features of training systems compared with the survey's marks; and one system with its defaults and limits.
std::string terminal(const std::vector<result::SystemSummary>& systems, bool colour, int width = 100);
std::string json(const std::vector<result::SystemSummary>& systems);
std::string terminal(const result::SystemDetails& details, bool colour, int width = 100);
std::string json(const result::SystemDetails& details);

// Memory over the step: a chart per stage and the tensors live at the peak of the fullest; JSON; stacked areas.
std::string terminal(const result::MemoryTimeline& memory, bool colour, int width = 100);
std::string json(const result::MemoryTimeline& memory);
std::string svg(const result::MemoryTimeline& memory);

// Profiled ranks: where their time went, by step, kind, stream, collective and kernel; text and JSON.
std::string terminal(const result::TraceProfile& profile, bool colour, int width = 100);
std::string json(const result::TraceProfile& profile);

// An SVG of a played schedule: one row per rank, one box per pass.
std::string svg(const schedule::Played& played, const std::string& name = "");  // name: of the schedule

// Perfetto TrackEvent protobuf: a track per stage and stream, flow arrows for sends, counters for memory.
// Throws std::runtime_error when the file cannot be written; nothing half-written is left.
void write_trace(const result::Report& report, const std::filesystem::path& file);
// The same into a file that the caller commits.
void write_trace(const result::Report& report, OutputFile& file);

}  // namespace stepcast::report
