#include "sweep.h"

#include <algorithm>
#include <array>
#include <queue>

namespace stepcast::trace {
namespace {

using result::TraceShare;

// What a device does in an interval.
enum class Doing { compute, both, communication, copy, host_bound, idle };

void count(TraceShare& share, Doing doing, Time time) {
  share.span += time;
  switch (doing) {
    case Doing::both:
      share.overlapped += time;
      share.compute += time;
      break;
    case Doing::compute:
      share.compute += time;
      break;
    case Doing::communication:
      share.communication += time;
      break;
    case Doing::copy:
      share.copy += time;
      break;
    case Doing::host_bound:
      share.host_bound += time;
      break;
    case Doing::idle:
      share.idle += time;
      break;
  }
}

class Sweep {
 public:
  Sweep(const DeviceEvents& events, std::vector<ShareWindow>& windows, TraceShare& whole)
      : events_(events), windows_(windows), whole_(whole) {}

  Covers run() {
    const Trace& trace = events_.trace;
    if (events_.first < events_.last) {
      now_ = trace.events[events_.first].start;
    }
    for (std::size_t i = events_.first; i < events_.last; ++i) {
      const DeviceEvent& event = trace.events[i];
      end_until(event.start);
      if (running() || event.start <= now_) {
        advance(event.start, doing());
      } else {
        wait_for(i);
      }
      const auto kind = class_of(trace.kind_of(event));
      ++running_[static_cast<std::size_t>(kind)];
      ends_.emplace(event.end(), kind);
    }
    end_until(Time::max());
    return std::move(covers_);
  }

 private:
  bool running() const {
    return std::any_of(running_.begin(), running_.end(), [](std::int64_t n) { return n > 0; });
  }
  Doing doing() const {
    const auto [compute, communication, copy] = running_;
    return compute > 0         ? (communication > 0 ? Doing::both : Doing::compute)
           : communication > 0 ? Doing::communication
                               : Doing::copy;
  }

  void end_until(Time time) {
    while (!ends_.empty() && ends_.top().first <= time) {
      advance(ends_.top().first, doing());
      --running_[static_cast<std::size_t>(ends_.top().second)];
      ends_.pop();
    }
  }

  // Idle until event `i` starts: as long as it was not launched, because of the host.
  void wait_for(std::size_t i) {
    const Trace& trace = events_.trace;
    const std::uint32_t launch = events_.links.launch[i];
    const Time start = trace.events[i].start;
    if (launch != kNone) {
      advance(std::clamp(trace.launches[launch].start, now_, start), Doing::host_bound);
    }
    advance(start, Doing::idle);
  }

  void advance(Time to, Doing doing) {
    if (to <= now_) {
      return;
    }
    count(whole_, doing, to - now_);
    if (doing == Doing::compute || doing == Doing::both) {
      covers_.compute.add(now_, to);
    }
    if (doing == Doing::communication || doing == Doing::both) {
      covers_.communication.add(now_, to);
    }
    Time from = now_;
    now_ = to;
    while (window_ < windows_.size() && from < to) {
      ShareWindow& window = windows_[window_];
      if (window.to <= from) {
        ++window_;
        continue;
      }
      from = std::max(from, window.from);
      if (const Time end = std::min(to, window.to); end > from) {
        count(window.share, doing, end - from);
        from = end;
      } else {
        break;  // the window is still to come
      }
    }
  }

  using End = std::pair<Time, Class>;
  const DeviceEvents& events_;
  std::vector<ShareWindow>& windows_;
  TraceShare& whole_;
  std::size_t window_ = 0;
  Time now_{0};
  std::array<std::int64_t, 3> running_{};  // by Class
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  Covers covers_;
};

}  // namespace

void Cover::add(Time from, Time to) {
  if (!parts_.empty() && parts_.back().to >= from) {
    parts_.back().to = std::max(parts_.back().to, to);
    return;
  }
  const Time before =
      parts_.empty() ? Time(0) : parts_.back().before + (parts_.back().to - parts_.back().from);
  parts_.push_back({from, to, before});
}

Time Cover::until(Time time) const {
  const auto after = std::upper_bound(parts_.begin(), parts_.end(), time,
                                      [](Time t, const Part& part) { return t < part.from; });
  if (after == parts_.begin()) {
    return Time(0);
  }
  const Part& part = *(after - 1);
  return part.before + (std::min(time, part.to) - part.from);
}

Time Cover::within(Time from, Time to) const { return until(to) - until(from); }

Covers sweep(const DeviceEvents& events, std::vector<ShareWindow>& windows, TraceShare& whole) {
  return Sweep(events, windows, whole).run();
}

}  // namespace stepcast::trace
