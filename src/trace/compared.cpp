#include "compared.h"

#include <algorithm>
#include <tuple>

namespace stepcast::trace {
namespace {

using program::Category;
using program::Slice;
using program::Task;
using program::TaskKind;
using result::TraceShare;

Time busy(const program::RankResult& r) {
  const auto of = [&](Category c) { return r.breakdown[static_cast<std::size_t>(c)]; };
  return of(Category::compute) + of(Category::recompute) + of(Category::optimizer);
}

// The rank of the stage that computes longest; nothing where there is none.
std::optional<std::uint32_t> rank_of(const result::Report::Trace& t, int stage) {
  std::optional<std::uint32_t> best;
  for (std::uint32_t rank = 0; rank < t.world.ranks.size(); ++rank) {
    if (t.world.programs[t.world.ranks[rank].program].stage == stage &&
        (!best || busy(t.timeline.ranks[rank]) > busy(t.timeline.ranks[*best]))) {
      best = rank;
    }
  }
  return best;
}

// A task within the step: a step is periodic, so what lies beyond its end is at its beginning.
void add_task(ForecastTask task, Time period, std::vector<ForecastTask>& out) {
  Time left = std::min(task.to - task.from, period);
  Time start(task.from.count() % period.count());
  start += start < Time(0) ? period : Time(0);
  for (; left > Time(0); start = Time(0)) {
    task.from = start;
    task.to = start + std::min(left, period - start);
    left -= task.to - task.from;
    out.push_back(task);
  }
}

std::uint32_t name_of(TaskKind kind) {
  return kind == TaskKind::kernel ? 0 : kind == TaskKind::copy ? 2 : 1;
}

// Divides the step as a profile's is.
void sweep_tasks(ForecastRank& out, Time period) {
  Trace trace;
  trace.streams.push_back({});
  for (const Kind kind : {Kind::other, Kind::communication, Kind::memset}) {
    trace.known.push_back({kind, "", ""});
  }
  for (const ForecastTask& task : out.tasks) {
    DeviceEvent event;
    event.start = task.from;
    event.duration = task.to - task.from;
    event.name = name_of(task.task->kind);
    trace.events.push_back(event);
  }
  std::sort(
      trace.events.begin(), trace.events.end(), [](const DeviceEvent& a, const DeviceEvent& b) {
        return std::tuple(a.start, a.name, a.duration) < std::tuple(b.start, b.name, b.duration);
      });
  Links links;
  links.launch.assign(trace.events.size(), kNone);
  std::vector<ShareWindow> none;
  out.covers = sweep({trace, links, 0, trace.events.size()}, none, out.share);
  TraceShare& s = out.share;
  s.span = period;
  s.idle = period - s.compute - s.communication - s.copy;
}

void add_share(TraceShare& to, const TraceShare& more) {
  to.span += more.span;
  to.compute += more.compute;
  to.communication += more.communication;
  to.copy += more.copy;
  to.host_bound += more.host_bound;
  to.idle += more.idle;
}

}  // namespace

std::string compared_kind(Kind kind) {
  switch (kind) {
    case Kind::gemm:
    case Kind::grouped_gemm:
    case Kind::attention:
    case Kind::optimizer:
    case Kind::communication:
      return to_string(kind);
    default:
      return class_of(kind) == Class::copy ? "copy" : "memory_bound";
  }
}

PhaseKind phase_kind(Phase phase, const std::string& compared) {
  if (phase == Phase::optimizer || compared == to_string(Kind::optimizer)) {
    return {"optimizer", "optimizer"};
  }
  return {phase == Phase::forward    ? "forward"
          : phase == Phase::backward ? "backward"
                                     : "step",
          compared};
}

const result::TraceDevice& busiest(const result::TraceRank& rank) {
  return *std::max_element(
      rank.devices.begin(), rank.devices.end(),
      [](const auto& a, const auto& b) { return a.share.compute < b.share.compute; });
}

TraceShare mean_share(const result::TraceDevice& device) {
  if (device.steps.empty()) {
    return device.share;
  }
  TraceShare s;
  const std::size_t whole = compared_steps(device.steps.size());
  for (std::size_t i = 0; i < whole; ++i) {
    add_share(s, device.steps[i].share);
  }
  for (Time* part : {&s.compute, &s.communication, &s.copy, &s.host_bound, &s.idle}) {
    *part /= static_cast<std::int64_t>(whole);
  }
  s.span = s.compute + s.communication + s.copy + s.host_bound + s.idle;
  return s;
}

std::optional<ForecastRank> forecast_rank(const result::Report& report, int stage) {
  if (!report.trace || report.trace->timeline.period <= Time(0)) {
    return std::nullopt;
  }
  const result::Report::Trace& t = *report.trace;
  const auto number = rank_of(t, stage);
  if (!number) {
    return std::nullopt;
  }
  ForecastRank out;
  out.rank = *number;
  out.program = &t.world.programs[t.world.ranks[*number].program];
  for (const Slice& slice : t.timeline.slices) {
    if (slice.rank != *number) {
      continue;
    }
    const Task& task = out.program->tasks[slice.task];
    // A kernel of communication runs from its arrival on: it waits for its peers.
    const Time from = task.kind == TaskKind::kernel ? slice.begin : slice.arrive;
    add_task({from, slice.end, &slice, &task}, t.timeline.period, out.tasks);
  }
  sweep_tasks(out, t.timeline.period);
  return out;
}

Time host_of(const result::Report& report, int stage, Time idle) {
  for (const result::StageBreakdown& b : report.breakdown) {
    if (b.stage == stage) {
      return std::min(b.host, idle);
    }
  }
  return Time(0);
}

}  // namespace stepcast::trace
