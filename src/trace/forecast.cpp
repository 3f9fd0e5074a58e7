#include "stepcast/trace/forecast.h"

#include <algorithm>
#include <map>

#include "compared.h"

namespace stepcast::trace {
namespace {

using program::Task;
using program::TaskKind;
using result::TraceComparison;
using result::TraceShare;
using result::TraceStep;

// Sums by kind of a device's mean step.
std::map<std::string, Time> mean_kinds(const result::TraceDevice& device) {
  std::map<std::string, Time> out;
  const auto count = [&](const std::vector<result::TraceKind>& kinds) {
    for (const result::TraceKind& kind : kinds) {
      out[compared_kind(parse<Kind>(kind.kind).value_or(Kind::other))] += kind.time;
    }
  };
  if (device.steps.empty()) {
    count(device.kinds);
    return out;
  }
  const std::size_t whole = compared_steps(device.steps.size());
  for (std::size_t i = 0; i < whole; ++i) {
    count(device.steps[i].kinds);
  }
  for (auto& [kind, time] : out) {
    time /= static_cast<std::int64_t>(whole);
  }
  return out;
}

}  // namespace

std::optional<TraceStep> forecast_step(const result::Report& report, int stage) {
  const auto found = forecast_rank(report, stage);
  if (!found) {
    return std::nullopt;
  }
  const program::World& world = report.trace->world;
  const program::Rank& rank = world.ranks[found->rank];
  std::map<std::string, result::TraceKind> kinds;
  const auto count = [&](const std::string& kind, Time time) {
    kinds[kind].kind = kind;
    ++kinds[kind].count;
    kinds[kind].time += time;
  };
  for (const ForecastTask& at : found->tasks) {
    const Task& task = *at.task;
    const Time time = at.to - at.from;
    if (task.kind == TaskKind::copy) {
      count("copy", time);
    } else if (task.kind != TaskKind::kernel) {
      count("communication", time);
      count(operation_of(world, rank, task), time);
    } else if (const program::Curve& curve = world.curves[task.curve]; curve.parts.empty()) {
      count(kind_of_curve(curve.name), time);
    } else {
      for (const auto& [part, share] : curve.parts) {
        count(kind_of_curve(world.curves[part].name), seconds(to_seconds(time) * share));
      }
    }
  }
  TraceStep out;
  out.name = found->program->name;
  out.share = found->share;
  out.share.host_bound = host_of(report, stage, out.share.idle);
  out.share.idle -= out.share.host_bound;
  for (const auto& [name, kind] : kinds) {
    out.kinds.push_back(kind);
  }
  return out;
}

std::optional<result::TraceForecast> compare(const result::TraceRank& rank,
                                             const result::Report& report, int stage) {
  const auto forecast = forecast_step(report, stage);
  if (!forecast || rank.devices.empty()) {
    return std::nullopt;
  }
  const result::TraceDevice& device = busiest(rank);
  const TraceShare mean = mean_share(device);
  std::map<std::string, Time> measured = mean_kinds(device);
  result::TraceForecast out;
  out.title = report.title;
  out.stage = stage;
  out.device = device.device;
  out.steps = static_cast<int>(device.steps.empty() ? 0 : compared_steps(device.steps.size()));
  out.low = report.step_time.low, out.high = report.step_time.high;
  const TraceShare &f = forecast->share, &m = mean;
  out.step = {{"step", f.span, m.span},
              {"compute", f.compute, m.compute},
              {"exposed_communication", f.communication, m.communication},
              {"exposed_copies", f.copy, m.copy},
              {"host_bound", f.host_bound, m.host_bound},
              {"idle", f.idle, m.idle}};
  // Operations of the whole rank, by step: a trace's rows are of all its steps.
  const Time all = measured["communication"];
  Time whole{0};
  for (const result::TraceCommunication& row : rank.communication) {
    whole += row.time;
  }
  for (const result::TraceCommunication& row : rank.communication) {
    measured[row.operation] +=
        whole > Time(0) ? seconds(to_seconds(row.time) * to_seconds(all) / to_seconds(whole))
                        : Time(0);
  }
  std::map<std::string, TraceComparison> kinds;
  for (const result::TraceKind& kind : forecast->kinds) {
    kinds[kind.kind].forecast += kind.time;
  }
  for (const auto& [kind, time] : measured) {
    kinds[kind].measured += time;
  }
  for (auto& [kind, row] : kinds) {
    row.what = kind;
    if (row.forecast > Time(0) || row.measured > Time(0)) {
      out.kinds.push_back(row);
    }
  }
  std::stable_sort(out.kinds.begin(), out.kinds.end(),
                   [](const TraceComparison& a, const TraceComparison& b) {
                     return std::max(a.forecast, a.measured) > std::max(b.forecast, b.measured);
                   });
  return out;
}

}  // namespace stepcast::trace
