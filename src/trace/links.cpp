#include "links.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace stepcast::trace {
namespace {

// The innermost operator around each launch, on the launch's own thread.
std::vector<std::uint32_t> operators_of_launches(Trace& trace) {
  auto& host = trace.host;
  std::sort(host.begin(), host.end(), [](const HostOperator& a, const HostOperator& b) {
    return std::tuple(a.thread, a.start, b.end, a.what) <
           std::tuple(b.thread, b.start, a.end, b.what);
  });
  const auto& launches = trace.launches;
  std::vector<std::uint32_t> order(launches.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::tuple(launches[a].thread, launches[a].start, a) <
           std::tuple(launches[b].thread, launches[b].start, b);
  });
  std::vector<std::uint32_t> out(launches.size(), kNone);
  std::vector<std::uint32_t> open;
  std::size_t next = 0;
  for (const std::uint32_t number : order) {
    const Launch& launch = launches[number];
    while (next < host.size() && std::tuple(host[next].thread, host[next].start) <=
                                     std::tuple(launch.thread, launch.start)) {
      while (!open.empty() && (host[open.back()].thread != host[next].thread ||
                               host[open.back()].end < host[next].start)) {
        open.pop_back();
      }
      open.push_back(static_cast<std::uint32_t>(next++));
    }
    while (!open.empty() &&
           (host[open.back()].thread != launch.thread || host[open.back()].end < launch.start)) {
      open.pop_back();
    }
    if (!open.empty()) {
      out[number] = open.back();
    }
  }
  return out;
}

// The phases of a trace's launches. Nodes of autograd's graph may lie within one another.
class Phases {
 public:
  explicit Phases(std::vector<HostPhase>& phases) {
    std::sort(phases.begin(), phases.end(), [](const HostPhase& a, const HostPhase& b) {
      return std::tuple(a.thread, a.start, b.end) < std::tuple(b.thread, b.start, a.end);
    });
    for (const HostPhase& phase : phases) {
      auto& of = phase.optimizer ? optimizer_ : backward_;
      if (!of.empty() && of.back().thread == phase.thread && phase.start <= of.back().end) {
        of.back().end = std::max(of.back().end, phase.end);
      } else {
        of.push_back(phase);
      }
    }
  }

  Phase of(const Launch& launch) const {
    return within(optimizer_, launch)  ? Phase::optimizer
           : backward_.empty()         ? Phase::whole
           : within(backward_, launch) ? Phase::backward
                                       : Phase::forward;
  }
  // Of an event without a launch.
  Phase unknown() const { return backward_.empty() ? Phase::whole : Phase::forward; }

 private:
  static bool within(const std::vector<HostPhase>& phases, const Launch& launch) {
    const auto after =
        std::upper_bound(phases.begin(), phases.end(), launch, [](const Launch& l, const auto& p) {
          return std::tuple(l.thread, l.start) < std::tuple(p.thread, p.start);
        });
    return after != phases.begin() && (after - 1)->thread == launch.thread &&
           launch.start <= (after - 1)->end;
  }

  std::vector<HostPhase> backward_, optimizer_;
};

// The step that is under way on the host at `time`. Before the first there is none.
std::uint32_t step_at(const std::vector<Step>& steps, Time time, bool may_be_late) {
  const auto after = std::upper_bound(steps.begin(), steps.end(), time,
                                      [](Time t, const Step& step) { return t < step.start; });
  if (after == steps.begin()) {
    return kNone;
  }
  const Step& step = *(after - 1);
  return may_be_late || time < step.start + step.duration
             ? static_cast<std::uint32_t>(after - 1 - steps.begin())
             : kNone;
}

}  // namespace

Links link(Trace& trace) {
  std::sort(trace.launches.begin(), trace.launches.end(), [](const Launch& a, const Launch& b) {
    return std::tuple(a.correlation, a.start, a.thread) <
           std::tuple(b.correlation, b.start, b.thread);
  });
  const std::vector<std::uint32_t> operators = operators_of_launches(trace);
  Links links;
  links.launch.assign(trace.events.size(), kNone);
  links.host.assign(trace.events.size(), kNone);
  links.step.assign(trace.events.size(), kNone);
  const Phases phases(trace.phases);
  links.phase.assign(trace.events.size(), phases.unknown());
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const DeviceEvent& event = trace.events[i];
    const auto at = std::lower_bound(
        trace.launches.begin(), trace.launches.end(), event.correlation,
        [](const Launch& launch, std::int64_t id) { return launch.correlation < id; });
    if (event.correlation >= 0 && at != trace.launches.end() &&
        at->correlation == event.correlation) {
      links.launch[i] = static_cast<std::uint32_t>(at - trace.launches.begin());
      links.host[i] = operators[links.launch[i]];
      links.step[i] = step_at(trace.steps, at->start, false);
      links.phase[i] = phases.of(*at);
    } else {
      // Launched before the profile began, or in a call that it does not have.
      links.step[i] = step_at(trace.steps, event.start, true);
    }
  }
  return links;
}

}  // namespace stepcast::trace
