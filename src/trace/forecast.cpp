#include "stepcast/trace/forecast.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "sweep.h"

namespace stepcast::trace {
namespace {

using program::Category;
using program::Slice;
using program::Task;
using program::TaskKind;
using result::TraceComparison;
using result::TraceShare;
using result::TraceStep;

// The kind of kernels that a curve prices: its name begins with it.
std::string kind_of_curve(const std::string& name) {
  for (const auto& [begin, kind] :
       {std::pair{"grouped gemm", Kind::grouped_gemm}, std::pair{"gemm", Kind::gemm},
        std::pair{"attention", Kind::attention}, std::pair{"memory optimizer", Kind::optimizer}}) {
    if (name.starts_with(begin)) {
      return to_string(kind);
    }
  }
  return "memory_bound";
}

// The operation of a collective: the first word of its price's label, "all_gather ring simple".
std::string operation_of(const program::World& world, const program::Rank& rank, const Task& task) {
  if (task.kind != TaskKind::collective) {
    return "send_recv";
  }
  const auto& communicator =
      world.communicators[world.communicator_table[rank.first_communicator + task.communicator]];
  const std::string& label =
      world.labels[world.shapes[communicator.shape].prices[task.price].label];
  return label.substr(0, label.find(' '));
}

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

// The tasks of one rank as events of a device. A step is periodic: what lies beyond its end is at
// its beginning.
class ForecastEvents {
 public:
  explicit ForecastEvents(Time period) : period_(period) {
    trace_.streams.push_back({});
    for (const Kind kind : {Kind::other, Kind::communication, Kind::memset}) {
      trace_.known.push_back({kind, "", ""});
    }
  }

  void add(TaskKind kind, Time from, Time to) {
    const std::uint32_t name = kind == TaskKind::kernel ? 0 : kind == TaskKind::copy ? 2 : 1;
    Time start(from.count() % period_.count());
    start += start < Time(0) ? period_ : Time(0);
    for (Time left = std::min(to - from, period_); left > Time(0); start = Time(0)) {
      DeviceEvent event;
      event.start = start;
      event.duration = std::min(left, period_ - start);
      event.name = name;
      left -= event.duration;
      trace_.events.push_back(event);
    }
  }

  TraceShare share() {
    std::sort(
        trace_.events.begin(), trace_.events.end(), [](const DeviceEvent& a, const DeviceEvent& b) {
          return std::tuple(a.start, a.name, a.duration) < std::tuple(b.start, b.name, b.duration);
        });
    Links links;
    links.launch.assign(trace_.events.size(), kNone);
    std::vector<ShareWindow> none;
    TraceShare out;
    sweep({trace_, links, 0, trace_.events.size()}, none, out);
    out.span = period_;
    out.idle = period_ - out.compute - out.communication - out.copy;
    return out;
  }

 private:
  Time period_;
  Trace trace_;
};

// The mean of a rank's steps on one device.
struct Mean {
  TraceShare share;
  std::map<std::string, Time> kinds;
  int steps = 0;
};

void add(TraceShare& to, const TraceShare& more) {
  to.span += more.span;
  to.compute += more.compute;
  to.communication += more.communication;
  to.copy += more.copy;
  to.host_bound += more.host_bound;
  to.idle += more.idle;
}

Mean mean_of(const result::TraceDevice& device) {
  Mean out;
  const auto count = [&](const TraceShare& share, const std::vector<result::TraceKind>& kinds) {
    add(out.share, share);
    for (const result::TraceKind& kind : kinds) {
      const auto known = parse<Kind>(kind.kind);
      const bool kept = known && (*known == Kind::gemm || *known == Kind::grouped_gemm ||
                                  *known == Kind::attention || *known == Kind::optimizer ||
                                  *known == Kind::communication);
      const bool copy = known && class_of(*known) == Class::copy;
      out.kinds[kept ? kind.kind : copy ? "copy" : "memory_bound"] += kind.time;
    }
  };
  if (device.steps.empty()) {
    count(device.share, device.kinds);
    return out;
  }
  const std::size_t whole = std::max<std::size_t>(1, device.steps.size() - 1);
  for (std::size_t i = 0; i < whole; ++i) {
    count(device.steps[i].share, device.steps[i].kinds);
  }
  out.steps = static_cast<int>(whole);
  const std::int64_t n = out.steps;
  TraceShare& s = out.share;
  for (Time* part : {&s.compute, &s.communication, &s.copy, &s.host_bound, &s.idle}) {
    *part /= n;
  }
  s.span = s.compute + s.communication + s.copy + s.host_bound + s.idle;
  for (auto& [kind, time] : out.kinds) {
    time /= n;
  }
  return out;
}

}  // namespace

std::optional<TraceStep> forecast_step(const result::Report& report, int stage) {
  if (!report.trace || report.trace->timeline.period <= Time(0)) {
    return std::nullopt;
  }
  const result::Report::Trace& t = *report.trace;
  const auto number = rank_of(t, stage);
  if (!number) {
    return std::nullopt;
  }
  const program::Rank& rank = t.world.ranks[*number];
  const program::Program& program = t.world.programs[rank.program];
  ForecastEvents events(t.timeline.period);
  std::map<std::string, result::TraceKind> kinds;
  const auto count = [&](const std::string& kind, Time time) {
    kinds[kind].kind = kind;
    ++kinds[kind].count;
    kinds[kind].time += time;
  };
  for (const Slice& slice : t.timeline.slices) {
    if (slice.rank != *number) {
      continue;
    }
    const Task& task = program.tasks[slice.task];
    // A kernel of communication runs from its arrival on: it waits for its peers.
    const Time from = task.kind == TaskKind::kernel ? slice.begin : slice.arrive;
    events.add(task.kind, from, slice.end);
    if (task.kind == TaskKind::copy) {
      count("copy", slice.end - from);
    } else if (task.kind != TaskKind::kernel) {
      count("communication", slice.end - from);
      count(operation_of(t.world, rank, task), slice.end - from);
    } else if (const program::Curve& curve = t.world.curves[task.curve]; curve.parts.empty()) {
      count(kind_of_curve(curve.name), slice.end - from);
    } else {
      for (const auto& [part, share] : curve.parts) {
        count(kind_of_curve(t.world.curves[part].name),
              seconds(to_seconds(slice.end - from) * share));
      }
    }
  }
  TraceStep out;
  out.name = program.name;
  out.share = events.share();
  for (const result::StageBreakdown& b : report.breakdown) {
    if (b.stage == stage) {
      out.share.host_bound = std::min(b.host, out.share.idle);
      out.share.idle -= out.share.host_bound;
    }
  }
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
  const auto busiest = std::max_element(
      rank.devices.begin(), rank.devices.end(),
      [](const auto& a, const auto& b) { return a.share.compute < b.share.compute; });
  Mean mean = mean_of(*busiest);
  result::TraceForecast out;
  out.title = report.title;
  out.stage = stage;
  out.device = busiest->device;
  out.steps = mean.steps;
  out.low = report.step_time.low, out.high = report.step_time.high;
  const TraceShare &f = forecast->share, &m = mean.share;
  out.step = {{"step", f.span, m.span},
              {"compute", f.compute, m.compute},
              {"exposed_communication", f.communication, m.communication},
              {"exposed_copies", f.copy, m.copy},
              {"host_bound", f.host_bound, m.host_bound},
              {"idle", f.idle, m.idle}};
  // Operations of the whole rank, by step: a trace's rows are of all its steps.
  const Time all = mean.kinds["communication"];
  Time whole{0};
  for (const result::TraceCommunication& row : rank.communication) {
    whole += row.time;
  }
  for (const result::TraceCommunication& row : rank.communication) {
    mean.kinds[row.operation] +=
        whole > Time(0) ? seconds(to_seconds(row.time) * to_seconds(all) / to_seconds(whole))
                        : Time(0);
  }
  std::map<std::string, TraceComparison> kinds;
  for (const result::TraceKind& kind : forecast->kinds) {
    kinds[kind.kind].forecast += kind.time;
  }
  for (const auto& [kind, time] : mean.kinds) {
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
