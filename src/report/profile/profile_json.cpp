// A profile of traces: its fields, and JSON.
#include <fmt/format.h>

#include <algorithm>

#include "../text/format.h"
#include "profile_conclusion.h"
#include "profile_fields.h"
#include "stepcast/report/report.h"

namespace stepcast::report {
namespace {

using result::TraceDevice;
using result::TraceRank;

double fraction_of(Time part, Time whole) {
  return whole > Time(0) ? to_seconds(part) / to_seconds(whole) : 0.0;
}

Value kinds_value(const std::vector<result::TraceKind>& kinds) {
  return list(
      kinds, [](const result::TraceKind& kind) { return object(trace_kind_fields(kind, Time(0))); },
      false);
}

Value path_value(const std::vector<result::TracePath>& path) {
  return list(
      path, [](const result::TracePath& row) { return object(trace_path_fields(row, Time(0))); },
      false);
}

Record step_value(const result::TraceStep& s) {
  Record row = step_fields(s);
  row.push_back({"kinds", kinds_value(s.kinds)});
  row.push_back({"critical_path", path_value(s.path)});
  return row;
}

Value device_value(const TraceDevice& d) {
  const Time path = path_length(d.path);
  Record out = {{"device", d.device}};
  append(out, share_fields(d.share));
  append(out, {{"kinds", kinds_value(d.kinds)},
               {"streams", blocks(d.streams,
                                  [&](const result::TraceStream& s) {
                                    Record row = trace_stream_fields(s, d.share.span);
                                    row.push_back({"kinds", kinds_value(s.kinds)});
                                    return row;
                                  })},
               {"steps", blocks(d.steps, step_value)},
               {"critical_path", path_value(d.path)},
               {"critical_kernels", rows(d.path_kernels, [path](const result::TraceKernel& k) {
                  return trace_kernel_fields(k, path);
                })}});
  if (d.outside) {
    Record row = step_fields(*d.outside);
    row.push_back({"kinds", kinds_value(d.outside->kinds)});
    out.push_back({"outside", object(std::move(row), false)});
  }
  return object(std::move(out), false);
}

Value forecast_value(const std::optional<result::TraceForecast>& f) {
  if (!f) {
    return {};
  }
  return object({{"title", f->title},
                 {"stage", f->stage},
                 {"device", f->device},
                 {"steps", f->steps},
                 {"step_low", Seconds{f->low}},
                 {"step_high", Seconds{f->high}},
                 {"step", rows(f->step, trace_comparison_fields)},
                 {"kinds", rows(f->kinds, trace_comparison_fields)}},
                false);
}

Value rank_value(const TraceRank& r) {
  const PricedSums sums = priced_sums(r);
  const Time all = kernel_time(r);
  return object(
      {{"file", r.file},
       {"rank", if_known(r.rank >= 0, r.rank)},
       {"world_size", if_known(r.world_size > 0, r.world_size)},
       {"device", text_or_null(r.device)},
       {"nccl", text_or_null(r.nccl_version)},
       {"bytes", r.bytes},
       {"events", r.events},
       {"damaged", r.damaged},
       {"unit", r.unit},
       {"devices", list(r.devices, device_value, false)},
       {"communication", rows(r.communication, trace_communication_fields)},
       {"collectives", rows(r.collectives, trace_collective_fields)},
       {"kernels",
        rows(r.kernels,
             [all](const result::TraceKernel& k) { return trace_kernel_fields(k, all); })},
       {"operators", rows(r.operators, trace_operator_fields)},
       {"products", object({{"known", sums.known},
                            {"without_shapes", r.without_shapes},
                            {"priced", sums.priced},
                            {"predicted", Seconds{sums.predicted}}})},
       {"kernels_without_shapes",
        rows(r.kernels_without_shapes,
             [all](const result::TraceKernel& k) { return trace_kernel_fields(k, all); })},
       {"forecast", forecast_value(r.forecast)},
       {"remarks", lines(r.remarks)}},
      false);
}

}  // namespace

Record share_fields(const result::TraceShare& s) {
  const Time communication = s.communication + s.overlapped;
  return {{"span", s.span, "device", Show::duration},
          {"compute", s.compute},
          {"exposed_communication", s.communication},
          {"exposed_copies", s.copy},
          {"host_bound", s.host_bound},
          {"idle", s.idle},
          {"overlapped_communication", s.overlapped},
          {"", fraction_of(s.compute, s.span), "compute", Show::percent},
          {"", fraction_of(s.communication, s.span), "exposed", Show::percent},
          {"", fraction_of(s.copy, s.span), "copies", Show::percent},
          {"", fraction_of(s.host_bound, s.span), "host-bound", Show::percent},
          {"", fraction_of(s.idle, s.span), "idle", Show::percent},
          {"", if_known(communication > Time(0), fraction_of(s.overlapped, communication)),
           "overlap", Show::percent}};
}

Record step_fields(const result::TraceStep& s) {
  Record out = {{"step", s.name, "step"}, {"host", s.host, "host", Show::duration}};
  append(out, share_fields(s.share));
  return out;
}

Record trace_kind_fields(const result::TraceKind& k, Time span) {
  return {{"kind", k.kind, "kind"},
          {"count", k.count, "count", Show::count},
          {"time", k.time, "time", Show::duration},
          {"", fraction_of(k.time, span), "of the time", Show::percent}};
}

Record trace_path_fields(const result::TracePath& row, Time span) {
  return {
      {"kind", row.kind, "kind"},
      {"count", row.count, "count", Show::count},
      {"time", row.time, "on the path", Show::duration},
      {"", fraction_of(row.time, span), "of the path", Show::percent},
      {"all", if_known(row.all > Time(0), row.all), "of the kind", Show::duration},
      {"", if_known(row.all > Time(0), fraction_of(row.time, row.all)), "on it", Show::percent}};
}

Record trace_stream_fields(const result::TraceStream& s, Time span) {
  std::string most;
  for (std::size_t i = 0; i < s.kinds.size() && i < 3; ++i) {
    most += fmt::format("{}{} {}", most.empty() ? "" : ", ", s.kinds[i].kind,
                        percent(fraction_of(s.kinds[i].time, s.time)));
  }
  return {{"stream", s.stream, "stream", Show::count},
          {"count", s.count, "count", Show::count},
          {"time", s.time, "time", Show::duration},
          {"", fraction_of(s.time, span), "of the time", Show::percent},
          {"", most, "most of it"}};
}

Record trace_communication_fields(const result::TraceCommunication& c) {
  const bool compared = c.compared > 0;
  const double transfer = to_seconds(c.compared_time - c.waiting);
  const double whole = to_seconds(c.time);
  // Bytes of the calls that were compared, as far as calls are alike.
  const double bytes = static_cast<double>(c.bytes);
  const double rate_time = compared ? transfer * whole / to_seconds(c.compared_time) : whole;
  return {{"operation", c.operation, "operation"},
          {"group", c.group, "group"},
          {"group_size", if_known(c.group_size > 0, c.group_size), "ranks", Show::count},
          {"count", c.count, "count", Show::count},
          {"time", c.time, "time", Show::duration},
          {"exposed", c.exposed, "exposed", Show::duration},
          {"beside_forward", c.beside_forward, "beside fwd", Show::duration},
          {"beside_backward", c.beside_backward, "beside bwd", Show::duration},
          {"bytes", if_known(c.bytes > 0, c.bytes), "data", Show::size},
          {"", if_known(c.bytes > 0 && rate_time > 0, bytes / std::max(rate_time, 1e-12)), "rate",
           Show::rate},
          {"compared", c.compared},
          {"waiting", if_known(compared, c.waiting), "waiting", Show::duration},
          {"compared_time", if_known(compared, c.compared_time)}};
}

Record trace_collective_fields(const result::TraceCollective& c) {
  const double transfer = to_seconds(c.transfer);
  const bool priced = c.predicted.has_value();
  return {{"operation", c.operation, "operation"},
          {"group", c.group},
          {"group_size", if_known(c.group_size > 0, c.group_size), "ranks", Show::count},
          {"bytes", c.bytes, "data", Show::size},
          {"count", c.count, "count", Show::count},
          {"time", c.time},
          {"", c.count > 0 ? to_seconds(c.time) / static_cast<double>(c.count) : 0.0, "each",
           Show::duration},
          {"transfer", c.transfer, "no waiting", Show::duration},
          {"compared", c.compared},
          {"predicted", c.predicted, "forecast", Show::duration},
          {"residual", if_known(priced, c.residual), "+-", Show::percent},
          {"", if_known(priced && *c.predicted > 0, priced ? transfer / *c.predicted - 1 : 0),
           "measured", Show::change},
          {"how", text_or_null(c.how)},
          {"why", text_or_null(c.why)},
          {"", c.how + c.why, "by", Show::prose}};
}

Record trace_kernel_fields(const result::TraceKernel& k, Time whole) {
  return {{"kind", k.kind, "kind"},
          {"name", k.name},
          {"count", k.count, "count", Show::count},
          {"time", k.time, "time", Show::duration},
          {"", fraction_of(k.time, whole), "share", Show::percent},
          {"", k.count > 0 ? to_seconds(k.time) / static_cast<double>(k.count) : 0.0, "each",
           Show::duration},
          {"", k.name, "kernel", Show::prose}};
}

Record trace_operator_fields(const result::TraceOperator& op) {
  const double each = op.count > 0 ? to_seconds(op.time) / static_cast<double>(op.count) : 0;
  const bool priced = op.predicted.has_value();
  Record out = {
      {"operator", op.name, "operator"},
      {"shapes", op.shapes},
      {"dtype", text_or_null(op.dtype), "type"},
      {"kernel", op.kernel},
      {"count", op.count, "count", Show::count},
      {"time", op.time, "time", Show::duration},
      {"", each, "each", Show::duration},
      {"predicted", op.predicted, "predicted", Show::duration},
      {"residual", if_known(priced, op.residual)},
      {"", if_known(priced && *op.predicted > 0, priced ? each / *op.predicted - 1 : 0), "measured",
       Show::change},
      {"why", text_or_null(op.why)},
      {"", op.shapes + (op.why.empty() ? "" : " (" + op.why + ")"), "shapes", Show::prose}};
  if (op.attention && !op.attention->causal_known) {
    out.push_back({"assumed", "causal"});
  }
  return out;
}

Record trace_comparison_fields(const result::TraceComparison& row) {
  const double forecast = to_seconds(row.forecast);
  return {{"what", row.what, "per step"},
          {"forecast", row.forecast, "forecast", Show::duration},
          {"measured", row.measured, "measured", Show::duration},
          {"", if_known(forecast > 0, forecast > 0 ? to_seconds(row.measured) / forecast - 1 : 0),
           "difference", Show::change}};
}

std::string rank_title(const TraceRank& r) {
  if (r.rank < 0) {
    return file_name(r.file);
  }
  return r.world_size > 0 ? fmt::format("Rank {} of {}", r.rank, r.world_size)
                          : fmt::format("Rank {}", r.rank);
}

std::string rank_remark(const TraceRank& r) {
  return fmt::format("{}{}{} events, {} of text", r.rank < 0 ? "" : file_name(r.file) + ", ",
                     r.device.empty() ? "" : r.device + ", ", thousands(r.events),
                     data_size(static_cast<double>(r.bytes)));
}

Time kernel_time(const TraceRank& rank) {
  Time sum{0};
  for (const result::TraceKernel& kernel : rank.kernels) {
    sum += kernel.time;
  }
  return sum;
}

Time path_length(const std::vector<result::TracePath>& path) {
  Time sum{0};
  for (const result::TracePath& row : path) {
    sum += row.time;
  }
  return sum;
}

PricedSums priced_sums(const TraceRank& rank) {
  PricedSums out;
  for (const result::TraceOperator& op : rank.operators) {
    out.known += op.time;
    if (op.predicted) {
      out.priced += op.time;
      out.predicted += *op.predicted * static_cast<double>(op.count);
    }
  }
  return out;
}

std::string json(const result::TraceProfile& p) {
  return json_of({{"schema", 1},
                  {"conclusion", conclusion(p)},
                  {"curves_of", text_or_null(p.priced_device)},
                  {"ranks", list(p.ranks, rank_value, false)},
                  {"notes", lines(p.notes)}});
}

}  // namespace stepcast::report
