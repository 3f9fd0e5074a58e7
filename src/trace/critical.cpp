#include "critical.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace stepcast::trace {
namespace {

// A kernel that follows another on its stream starts one to two microseconds after it. Where it
// does, the order of the stream explains its start, although a kernel of another stream may have
// ended within that time.
constexpr Time kFollows{3'000'000};

// A host that waits for values which a kernel writes to its memory (DeepEP's counts of received
// tokens) makes no call that a profile records. It launches nothing for long, and something at once
// when that kernel has ended: a pause of at least so long, of which a tenth at most comes behind
// the end of what was last launched on some stream. Launches of a busy host are some microseconds
// to tens of them apart.
constexpr Time kPause{100'000'000};
constexpr int kAtOnce = 10;

}  // namespace

CriticalPath::CriticalPath(const DeviceEvents& events) : events_(events) {
  by_end_.resize(events_.last - events_.first);
  std::iota(by_end_.begin(), by_end_.end(), static_cast<std::uint32_t>(events_.first));
  std::sort(by_end_.begin(), by_end_.end(),
            [this](std::uint32_t a, std::uint32_t b) { return ends_before(a, b); });
  previous_.assign(by_end_.size(), kNone);
  std::map<std::uint32_t, std::uint32_t> last;  // by stream
  for (std::size_t i = events_.first; i < events_.last; ++i) {
    const auto event = static_cast<std::uint32_t>(i);
    const auto [of, is_new] = last.try_emplace(at(event).stream, event);
    if (!is_new) {
      previous_[i - events_.first] = of->second;
      of->second = event;
    }
  }
  find_waits();
  find_pauses();
  std::sort(waits_.begin(), waits_.end(), [](const HostWait& a, const HostWait& b) {
    return std::tuple(a.end, a.event) < std::tuple(b.end, b.event);
  });
}

bool CriticalPath::ends_before(std::uint32_t a, std::uint32_t b) const {
  return std::tuple(at(a).end(), a) < std::tuple(at(b).end(), b);
}

// Of the events that have ended at `time`, the last; where `before` is one, also in their order
// before it, so that no path goes round among events without a length.
std::uint32_t CriticalPath::last_ended(Time time, std::uint32_t before) const {
  auto after = std::partition_point(by_end_.begin(), by_end_.end(),
                                    [&](std::uint32_t event) { return at(event).end() <= time; });
  if (before != kNone) {
    after = std::min(after, std::lower_bound(by_end_.begin(), by_end_.end(), before,
                                             [this](std::uint32_t a, std::uint32_t b) {
                                               return ends_before(a, b);
                                             }));
  }
  return after == by_end_.begin() ? kNone : *(after - 1);
}

// Calls that synchronise wait for what ended last within them; a copy's call, for its own copy if
// that ended within it. A call within which nothing ended did not wait.
void CriticalPath::find_waits() {
  std::map<std::int64_t, std::uint32_t> copies;  // by correlation
  if (!events_.trace.waits.empty()) {
    for (std::size_t i = events_.first; i < events_.last; ++i) {
      const DeviceEvent& event = events_.trace.events[i];
      if (event.correlation >= 0 && class_of(events_.trace.kind_of(event)) == Class::copy) {
        copies[event.correlation] = static_cast<std::uint32_t>(i);
      }
    }
  }
  for (const HostCall& call : events_.trace.waits) {
    std::uint32_t event = kNone;
    if (call.copies) {
      const auto copy = copies.find(call.correlation);
      event = copy == copies.end() || at(copy->second).end() > call.end ? kNone : copy->second;
    } else {
      event = last_ended(call.end, kNone);
    }
    if (event != kNone && at(event).end() >= call.start) {
      waits_.push_back({call.end, event});
    }
  }
}

// Launches are in the order of their correlation, in which the host made them.
void CriticalPath::find_pauses() {
  struct Pause {
    Time from, to;
  };
  std::vector<Pause> pauses;
  const std::vector<Launch>& launches = events_.trace.launches;
  Time last = launches.empty() ? Time(0) : launches.front().start;
  for (const Launch& launch : launches) {
    if (launch.start - last >= kPause) {
      pauses.push_back({last, launch.start});
    }
    last = std::max(last, launch.start);
  }
  if (pauses.empty()) {
    return;
  }
  // When the host launched what follows each event on its stream; without a follower: never.
  std::vector<std::uint32_t> next(previous_.size(), kNone);
  for (std::size_t i = 0; i < previous_.size(); ++i) {
    if (previous_[i] != kNone) {
      next[previous_[i] - events_.first] = static_cast<std::uint32_t>(events_.first + i);
    }
  }
  const auto was_last = [&](std::uint32_t event, Time until) {
    const std::uint32_t follower = next[event - events_.first];
    if (follower == kNone) {
      return true;
    }
    const std::uint32_t launch = events_.links.launch[follower];
    return launch != kNone && launches[launch].start >= until;
  };
  for (const Pause& pause : pauses) {
    const Time earliest = pause.to - (pause.to - pause.from) / kAtOnce;
    std::uint32_t event = last_ended(pause.to, kNone);
    while (event != kNone && at(event).end() >= earliest && !was_last(event, pause.to)) {
      event = last_ended(at(event).end(), event);
    }
    if (event != kNone && at(event).end() >= earliest) {
      waits_.push_back({pause.to, event});
    }
  }
}

CriticalPath::Cause CriticalPath::cause_of(std::uint32_t event) const {
  const Time start = at(event).start;
  Cause out;
  out.event = last_ended(start, event);
  if (const std::uint32_t launch = events_.links.launch[event]; launch != kNone) {
    const Time launched = std::min(events_.trace.launches[launch].start, start);
    if (out.event == kNone || launched > at(out.event).end()) {
      return {kNone, launched, true};
    }
  }
  const std::uint32_t before = previous_[event - events_.first];
  if (before != kNone && at(before).end() <= start && start - at(before).end() <= kFollows) {
    out.event = before;
  }
  return out;
}

// A window ends where the next one's first event starts: with what that waited for. The last one
// ends with its last event.
CriticalPath::Cause CriticalPath::cause_of_end(Time to) const {
  const auto& events = events_.trace.events;
  const auto next =
      std::partition_point(events.begin() + static_cast<std::ptrdiff_t>(events_.first),
                           events.begin() + static_cast<std::ptrdiff_t>(events_.last),
                           [&](const DeviceEvent& event) { return event.start < to; });
  const auto number = static_cast<std::uint32_t>(next - events.begin());
  Cause last;
  last.event = last_ended(to, kNone);
  const bool ends_here = last.event != kNone && at(last.event).end() == to;
  return !ends_here && number < events_.last && next->start == to ? cause_of(number) : last;
}

// The host from `until` back to the last call in which it waited for the device.
CriticalPath::Cause CriticalPath::host_waited(Time until, std::uint32_t before) const {
  auto after = std::upper_bound(waits_.begin(), waits_.end(), until,
                                [](Time time, const HostWait& wait) { return time < wait.end; });
  for (; after != waits_.begin(); --after) {
    const std::uint32_t event = (after - 1)->event;
    if (before == kNone || ends_before(event, before)) {
      return {event, Time(0), false};
    }
  }
  return {};
}

void CriticalPath::walk(Time from, Time to,
                        const std::function<void(const PathPiece&)>& visit) const {
  Time now = to;
  const auto back_to = [&](Time time, std::uint32_t event, bool host) {
    time = std::max(time, from);
    if (time < now) {
      visit({time, now, event, host});
      now = time;
    }
  };
  std::uint32_t event = kNone;
  Cause cause = cause_of_end(to);
  while (now > from) {
    if (cause.host) {
      back_to(cause.launched, kNone, false);
      cause = host_waited(cause.launched, event);
      back_to(cause.event == kNone ? from : at(cause.event).end(), kNone, true);
    }
    if (cause.event == kNone) {
      back_to(from, kNone, false);
      return;
    }
    event = cause.event;
    back_to(at(event).end(), kNone, false);
    back_to(at(event).start, event, false);
    cause = cause_of(event);
  }
}

}  // namespace stepcast::trace
