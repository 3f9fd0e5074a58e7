// What the end of a step hung on, moment by moment.
#pragma once

#include <functional>
#include <vector>

#include "sweep.h"

namespace stepcast::trace {

// A piece of a critical path: an event of the device, or a time in which none of the path runs.
struct PathPiece {
  Time from{0}, to{0};
  std::uint32_t event = kNone;  // in Trace::events
  bool host = false;            // without an event: the host comes to its launch; otherwise a gap
};

// The critical path is found backwards from a window's end: what an event waited for is what ended
// or was launched last before it, and that again waited for something. A profile records which
// launch an event has and the order of its stream, but not on which events of other streams it
// waited, so of these the last to end counts.
class CriticalPath {
 public:
  explicit CriticalPath(const DeviceEvents& events);

  // Calls `visit` for each piece, the latest first; they fill the time from `from` to `to`.
  void walk(Time from, Time to, const std::function<void(const PathPiece&)>& visit) const;

 private:
  // What made an event, or the end of a window, come no earlier.
  struct Cause {
    std::uint32_t event = kNone;
    Time launched{0};  // without an event: by the host, at this time
    bool host = false;
  };
  // An event that the host waited for, and when it went on.
  struct HostWait {
    Time end{0};
    std::uint32_t event = kNone;
  };
  const DeviceEvent& at(std::uint32_t event) const { return events_.trace.events[event]; }
  bool ends_before(std::uint32_t a, std::uint32_t b) const;
  std::uint32_t last_ended(Time time, std::uint32_t before) const;
  Cause cause_of(std::uint32_t event) const;
  Cause cause_of_end(Time to) const;
  Cause host_waited(Time until, std::uint32_t before) const;
  void find_waits();
  void find_pauses();

  DeviceEvents events_;
  std::vector<std::uint32_t> by_end_;    // events in order of their end, and of their number
  std::vector<std::uint32_t> previous_;  // of each event, the one before it on its stream
  std::vector<HostWait> waits_;          // in order of their end
};

}  // namespace stepcast::trace
