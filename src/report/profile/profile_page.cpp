// A profile of traces as one self-contained page.
#include <fmt/format.h>

#include <algorithm>

#include "../page/page_parts.h"
#include "../record/tables.h"
#include "../text/format.h"
#include "profile_conclusion.h"
#include "profile_fields.h"
#include "stepcast/report/pages.h"
#include "stepcast/report/report.h"

namespace stepcast::report {
namespace {

using result::TraceDevice;
using result::TraceRank;
using result::TraceShare;
using result::TraceStep;

constexpr std::size_t kMostRowsOfPage = 200;

std::vector<Part> step_parts(const TraceShare& s) {
  const double whole = to_seconds(s.span);
  return {time_part("compute", "compute", to_seconds(s.compute), whole),
          time_part("tensor", "exposed communication", to_seconds(s.communication), whole),
          time_part("offload", "exposed copies", to_seconds(s.copy), whole),
          time_part("host", "host-bound", to_seconds(s.host_bound), whole),
          time_part("bubble", "idle", to_seconds(s.idle), whole)};
}

const char* colour_of_run(const std::string& kind) {
  return kind == "products"        ? "compute"
         : kind == "attention"     ? "forward"
         : kind == "communication" ? "tensor"
         : kind == "copies"        ? "offload"
         : kind == "host"          ? "host"
         : kind == "gap"           ? "bubble"
                                   : "optimizer";
}

template <class Row, class Fields>
std::string shown_table(const char* id, const char* caption, const std::vector<Row>& all,
                        const Fields& fields, const Captions& captions = {}) {
  const std::vector<Row> first(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                              kMostRowsOfPage, all.size())));
  Table table = page_table(first, fields, captions);
  table.id = id;
  table.caption = caption;
  table.sortable = true;
  return to_html(table);
}

constexpr double kPictureWidth = 1000, kRowHeight = 22, kBoxHeight = 18;

// The boxes of one row, with their words on hover.
std::string row_of_boxes(const result::TraceTimeline& t, std::size_t row, const std::string& title,
                         const std::vector<result::TraceRun>& runs) {
  const double span = std::max(1e-12, to_seconds(t.to - t.from));
  const auto x = [&](Time time) { return to_seconds(time - t.from) / span * kPictureWidth; };
  std::string out;
  for (const result::TraceRun& run : runs) {
    const std::string what =
        run.longest.empty() ? run.kind
        : run.count > 1     ? fmt::format("{} {}, the longest {}", run.count, run.kind, run.longest)
                            : run.longest;
    out += fmt::format(
        "<rect class=\"k-{}\" x=\"{:.2f}\" y=\"{:g}\" width=\"{:.2f}\" height=\"{:g}\"><title>"
        "{}: {}, {} of {}, at {}</title></rect>\n",
        colour_of_run(run.kind), x(run.from), kRowHeight * static_cast<double>(row),
        std::max(0.3, x(run.to) - x(run.from)), kBoxHeight, title, html_text(what),
        duration(to_seconds(run.to - run.from)), duration(span),
        duration(to_seconds(run.from - t.from)));
  }
  return out;
}

// The critical path, and below it one row for each stream.
std::string timeline_picture(const result::TraceTimeline& t) {
  const double height = kRowHeight * static_cast<double>(t.rows.size() + 1);
  std::string out = fmt::format(
      "<svg viewBox=\"0 0 {:g} {:g}\" preserveAspectRatio=\"none\" role=\"img\" "
      "width=\"100%\" height=\"{:g}\"><title>Streams of one step over time</title>",
      kPictureWidth, height, height);
  out += row_of_boxes(t, 0, "critical path", t.path);
  for (std::size_t row = 0; row < t.rows.size(); ++row) {
    out += row_of_boxes(t, row + 1, fmt::format("stream {}", t.rows[row].stream), t.rows[row].runs);
  }
  return out + "</svg>\n";
}

void add_timeline_of(Page& page, const result::TraceTimeline& t) {
  std::string streams;
  for (const auto& row : t.rows) {
    streams += fmt::format("{}{}", streams.empty() ? "" : ", ", row.stream);
  }
  page.add(legend({{"compute", "products", ""},
                   {"forward", "attention", ""},
                   {"optimizer", "memory-bound and other", ""},
                   {"tensor", "communication", ""},
                   {"offload", "copies", ""},
                   {"host", "the host had not launched", ""},
                   {"bubble", "gap", ""}}));
  page.add(figure(timeline_picture(t),
                  fmt::format("{}, {}; from the top: the critical path, streams {}", t.step,
                              duration(to_seconds(t.to - t.from)), streams)));
}

void add_device(Page& page, const TraceDevice& d, const std::string& id) {
  std::vector<TraceStep> steps = d.steps;
  if (steps.empty()) {
    steps.push_back({"whole trace", Time(0), d.share, {}});
  }
  Time longest{1};
  for (const TraceStep& step : steps) {
    longest = std::max(longest, step.share.span);
  }
  page.add(legend({{"compute", "compute", ""},
                   {"tensor", "exposed communication", ""},
                   {"offload", "exposed copies", ""},
                   {"host", "host-bound", ""},
                   {"bubble", "idle", ""}}));
  page.add(shown_table((id + "-steps").c_str(), "Steps", steps, [&](const TraceStep& step) {
    Record row = step_fields(step);
    row.push_back(
        {"", bar(step_parts(step.share), to_seconds(longest)), "where it goes", Show::bar});
    return row;
  }));
  if (const Time length = path_length(d.path); length > Time(0)) {
    page.add(shown_table(
        (id + "-path").c_str(), "Critical path: what a step's end waited for", d.path,
        [length](const result::TracePath& row) { return trace_path_fields(row, length); }));
  }
  page.add(shown_table(
      (id + "-kinds").c_str(), "By kind: sums of durations, whatever runs beside", d.kinds,
      [&](const result::TraceKind& k) { return trace_kind_fields(k, d.share.span); }));
  page.add(shown_table(
      (id + "-streams").c_str(), "By stream", d.streams,
      [&](const result::TraceStream& s) { return trace_stream_fields(s, d.share.span); }));
  if (d.timeline) {
    add_timeline_of(page, *d.timeline);
  }
}

void add_rank(Page& page, const result::TraceProfile& p, const TraceRank& r, std::size_t number) {
  const std::string id = fmt::format("rank-{}", number);
  page.section(id, rank_title(r), rank_remark(r));
  for (const std::string& remark : r.remarks) {
    page.add(paragraph(remark));
  }
  for (const TraceDevice& d : r.devices) {
    add_device(page, d, fmt::format("{}-device-{}", id, d.device));
  }
  if (!r.communication.empty()) {
    page.add(shown_table((id + "-communication").c_str(), "Communication", r.communication,
                         trace_communication_fields));
  }
  if (!r.collectives.empty()) {
    page.add(shown_table((id + "-collectives").c_str(), "Collectives by size", r.collectives,
                         trace_collective_fields));
  }
  const Time all = kernel_time(r);
  page.add(
      shown_table((id + "-kernels").c_str(), "Kernels, the longest first", r.kernels,
                  [all](const result::TraceKernel& k) { return trace_kernel_fields(k, all); }));
  if (!r.operators.empty()) {
    const std::string caption = p.priced_device.empty()
                                    ? "Products and attention by shape"
                                    : fmt::format(
                                          "Products and attention by shape against the curves of "
                                          "{}, the largest difference first",
                                          p.priced_device);
    page.add(shown_table((id + "-operators").c_str(), caption.c_str(), r.operators,
                         trace_operator_fields));
  }
  if (r.forecast) {
    page.add(shown_table((id + "-forecast").c_str(),
                         fmt::format("Forecast of stage {} beside the profile: {}",
                                     r.forecast->stage, r.forecast->title)
                             .c_str(),
                         r.forecast->step, trace_comparison_fields));
    page.add(shown_table((id + "-forecast-kinds").c_str(), "By kind", r.forecast->kinds,
                         trace_comparison_fields));
  }
}

}  // namespace

std::string html(const result::TraceProfile& p) {
  Page page("Profile", fmt::format("{} rank{}", p.ranks.size(), p.ranks.size() == 1 ? "" : "s"));
  page.lead(conclusion(p));
  for (std::size_t i = 0; i < p.ranks.size(); ++i) {
    add_rank(page, p, p.ranks[i], i);
  }
  for (const std::string& note : p.notes) {
    page.add(paragraph(note));
  }
  page.add(embedded_json("data", json(p)));
  return page.finish();
}

}  // namespace stepcast::report
