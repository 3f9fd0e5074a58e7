// A profile of traces as text.
#include <fmt/format.h>

#include <algorithm>

#include "../record/tables.h"
#include "../text/bar.h"
#include "../text/format.h"
#include "profile_conclusion.h"
#include "profile_fields.h"
#include "stepcast/report/report.h"

namespace stepcast::report {
namespace {

using result::TraceDevice;
using result::TraceRank;
using result::TraceStep;

constexpr std::size_t kMostSteps = 12, kMostRows = 12, kMostStreams = 6, kMostOperators = 10,
                      kMostOnPath = 6;
constexpr int kBarOfStep = 40;

const std::vector<BarKind> kShareKinds = {{"compute", "█", "38;5;33"},
                                          {"exposed communication", "▒", "38;5;208"},
                                          {"exposed copies", "c", "38;5;130"},
                                          {"host-bound", "h", "38;5;160"},
                                          {"idle", "·", "2"}};

std::vector<double> share_parts(const result::TraceShare& s) {
  return {to_seconds(s.compute), to_seconds(s.communication), to_seconds(s.copy),
          to_seconds(s.host_bound), to_seconds(s.idle)};
}

template <class Row, class Fields>
std::string some(const std::vector<Row>& all, std::size_t most, const Fields& fields,
                 const Captions& captions, const Paint& paint, int width) {
  const std::vector<Row> first(
      all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(most, all.size())));
  std::string text = text_table(first, fields, captions).text(paint, width);
  if (all.size() > most) {
    text += item(fmt::format("and {} more (--json has all)", all.size() - most), width);
  }
  return text;
}

std::string steps_text(const TraceDevice& d, const Paint& paint, int width) {
  std::vector<TraceStep> shown(
      d.steps.begin(),
      d.steps.begin() + static_cast<std::ptrdiff_t>(std::min(kMostSteps, d.steps.size())));
  if (d.outside) {
    shown.push_back(*d.outside);
  }
  if (shown.empty()) {
    shown.push_back({"whole trace", Time(0), d.share, {}});
  }
  Time longest{1};
  std::vector<std::string> shares;
  result::TraceShare sum;
  for (const TraceStep& step : shown) {
    longest = std::max(longest, step.share.span);
  }
  TextTable table({{"step", TextTable::Align::left},
                   {"host"},
                   {"device"},
                   {"compute"},
                   {"exposed"},
                   {"copies"},
                   {"host-bound"},
                   {"idle"},
                   {"overlap"},
                   {"", TextTable::Align::left, true}});
  const Captions captions = {"step",   "host",       "device", "compute", "exposed",
                             "copies", "host-bound", "idle",   "overlap"};
  for (const TraceStep& step : shown) {
    std::vector<std::string> cells = text_row(step_fields(step), captions);
    cells.push_back(stacked_bar(kShareKinds, share_parts(step.share), to_seconds(longest),
                                kBarOfStep, {"", " ", ""}, paint));
    table.row(std::move(cells));
  }
  for (const double part : share_parts(d.share)) {
    shares.push_back(part > 0 && d.share.span > Time(0) ? percent(part / to_seconds(d.share.span))
                                                        : "");
  }
  const int bar = width - table.width_without_bar() >= kBarOfStep ? kBarOfStep : 0;
  std::string text = table.text(paint, width, bar);
  if (d.steps.size() > kMostSteps) {
    text +=
        item(fmt::format("and {} more steps (--json has all)", d.steps.size() - kMostSteps), width);
  }
  return text + legend(kShareKinds, shares, width, paint);
}

std::string path_text(const TraceDevice& d, const Paint& paint, int width) {
  const Time length = path_length(d.path);
  if (length == Time(0)) {
    return "";
  }
  std::string text =
      "\n" +
      heading(paint, "Critical path",
              "what a step's end waited for, moment by moment: nothing else makes it shorter",
              width) +
      some(
          d.path, kMostRows,
          [length](const result::TracePath& row) { return trace_path_fields(row, length); }, {},
          paint, width);
  if (!d.path_kernels.empty()) {
    text +=
        "\n" + heading(paint, "Kernels on the critical path, the longest first") +
        some(
            d.path_kernels, kMostOnPath,
            [length](const result::TraceKernel& k) { return trace_kernel_fields(k, length); },
            {"kind", "count", "time", {"share", "of the path"}, "each", "kernel"}, paint, width);
  }
  return text;
}

std::string device_text(const TraceDevice& d, const Paint& paint, int width) {
  std::string text = "\n" +
                     heading(paint, fmt::format("Device {}: where the time goes", d.device),
                             "overlap: communication beside compute, of all of it", width) +
                     steps_text(d, paint, width) + path_text(d, paint, width);
  text += "\n" + heading(paint, "By kind", "sums of durations, whatever runs beside", width) +
          text_table(d.kinds, [&](const result::TraceKind& k) {
            return trace_kind_fields(k, d.share.span);
          }).text(paint, width);
  text += "\n" + heading(paint, "By stream") +
          some(
              d.streams, kMostStreams,
              [&](const result::TraceStream& s) { return trace_stream_fields(s, d.share.span); },
              {}, paint, width);
  return text;
}

std::string communication_text(const TraceRank& r, const Paint& paint, int width) {
  if (r.communication.empty()) {
    return "";
  }
  Captions captions = {"operation", "ranks", "count", "time", "exposed"};
  const auto any = [&](auto has) {
    return std::any_of(r.communication.begin(), r.communication.end(), has);
  };
  const bool compared = any([](const auto& c) { return c.compared > 0; });
  if (any([](const auto& c) { return c.beside_backward > Time(0); })) {
    captions.emplace_back("beside fwd");
    captions.emplace_back("beside bwd");
  }
  if (compared) {
    captions.emplace_back("waiting");
  }
  if (any([](const auto& c) { return c.bytes > 0; })) {
    captions.emplace_back("data");
    captions.emplace_back("rate");
  }
  captions.emplace_back("group");
  return "\n" +
         heading(
             paint, "Communication",
             compared
                 ? "waiting: for the last of the ranks given; rate: without it where it is known"
                 : "waiting for other ranks included",
             width) +
         some(r.communication, kMostRows, trace_communication_fields, captions, paint, width);
}

std::string collectives_text(const TraceRank& r, const Paint& paint, int width) {
  if (std::none_of(r.collectives.begin(), r.collectives.end(),
                   [](const auto& c) { return c.predicted.has_value(); })) {
    return "";
  }
  return "\n" +
         heading(paint, "Collectives against NCCL's curves of the job's cluster",
                 "largest difference first; no waiting: of ranks compared the last, else the "
                 "fastest quarter",
                 width) +
         some(r.collectives, kMostRows, trace_collective_fields,
              {"operation", "ranks", "data", "count", "each", "no waiting", "forecast", "+-",
               "measured", "by"},
              paint, width);
}

std::string kernels_text(const TraceRank& r, const Paint& paint, int width) {
  if (r.kernels.empty()) {
    return "";
  }
  const Time all = kernel_time(r);
  return "\n" + heading(paint, "Kernels, the longest first") +
         some(
             r.kernels, kMostRows,
             [all](const result::TraceKernel& k) { return trace_kernel_fields(k, all); },
             {"kind", "count", "time", "share", "each", "kernel"}, paint, width);
}

std::string operators_text(const TraceRank& r, const std::string& device, const Paint& paint,
                           int width) {
  if (r.operators.empty() && r.without_shapes == Time(0)) {
    return "";
  }
  const PricedSums sums = priced_sums(r);
  std::string text =
      "\n" +
      heading(
          paint, "Products and attention",
          device.empty()
              ? "by shape"
              : fmt::format("by shape against the curves of {}, largest difference first", device),
          width);
  if (!r.operators.empty()) {
    Captions captions = {"operator", "type", "count", "time", "each"};
    if (!device.empty()) {
      captions.emplace_back("predicted");
      captions.emplace_back("measured");
    }
    captions.emplace_back("shapes");
    text += some(r.operators, kMostOperators, trace_operator_fields, captions, paint, width);
  }
  if (sums.predicted > 0) {
    text += item(fmt::format("{} of kernels are predicted as {}: {}",
                             duration(to_seconds(sums.priced)), duration(sums.predicted),
                             signed_percent(to_seconds(sums.priced) / sums.predicted - 1)),
                 width);
  }
  if (r.without_shapes > Time(0)) {
    const result::TraceKernel& longest = r.kernels_without_shapes.front();
    text +=
        item(fmt::format("{} of {} kernels are not matched with shapes, the most of it in {} ({})",
                         duration(to_seconds(r.without_shapes)),
                         duration(to_seconds(r.without_shapes + sums.known)), longest.name,
                         duration(to_seconds(longest.time))),
             width);
  }
  return text;
}

std::string forecast_text(const TraceRank& r, const Paint& paint, int width) {
  if (!r.forecast) {
    return "";
  }
  const result::TraceForecast& f = *r.forecast;
  std::string text = "\n" +
                     heading(paint, fmt::format("Forecast of stage {} beside the profile", f.stage),
                             fmt::format("{}; {}", f.title,
                                         f.steps > 0 ? fmt::format("mean of {} step{}", f.steps,
                                                                   f.steps > 1 ? "s" : "")
                                                     : "the whole trace as one step"),
                             width) +
                     text_table(f.step, trace_comparison_fields).text(paint, width) +
                     item(fmt::format("90 % interval of the forecast step: {} to {}",
                                      duration(f.low), duration(f.high)),
                          width);
  return text + "\n" +
         heading(paint, "By kind", "sums of durations; communication with its waiting", width) +
         text_table(f.kinds, trace_comparison_fields).text(paint, width);
}

}  // namespace

std::string terminal(const result::TraceProfile& p, bool colour, int width) {
  const Paint paint{colour};
  std::string text = paint("1", wrap(conclusion(p), width, 0)) + "\n";
  for (const TraceRank& r : p.ranks) {
    text += "\n" + paint("1", rank_title(r)) + "\n" + item(rank_remark(r), width);
    for (const std::string& remark : r.remarks) {
      text += item("note: " + remark, width, 4);
    }
    for (const TraceDevice& d : r.devices) {
      text += device_text(d, paint, width);
    }
    text += communication_text(r, paint, width) + collectives_text(r, paint, width) +
            kernels_text(r, paint, width) + operators_text(r, p.priced_device, paint, width) +
            forecast_text(r, paint, width);
  }
  for (const std::string& note : p.notes) {
    text += "\n" + wrap("note: " + note, width, 6) + "\n";
  }
  return text;
}

}  // namespace stepcast::report
