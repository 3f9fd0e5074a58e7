// One device's time, moment by moment.
#pragma once

#include <span>
#include <vector>

#include "links.h"
#include "stepcast/result/trace.h"
#include "stepcast/trace/trace.h"

namespace stepcast::trace {

// A window of a device's time whose shares are wanted.
struct ShareWindow {
  Time from{0}, to{0};
  result::TraceShare share;
};

// Intervals that do not overlap, in order, with the sum of their lengths.
class Cover {
 public:
  void add(Time from, Time to);  // not before what was added last
  Time within(Time from, Time to) const;

 private:
  Time until(Time time) const;
  struct Part {
    Time from, to, before;  // `before`: the sum of the parts before it
  };
  std::vector<Part> parts_;
};

// Events of Trace::events from `first` on, of one device, in order of their start.
struct DeviceEvents {
  const Trace& trace;
  const Links& links;
  std::size_t first = 0, last = 0;
};

// When kernels compute, and when communication runs.
struct Covers {
  Cover compute, communication;
};

// Fills the shares of `windows`, which follow each other, and of the whole.
Covers sweep(const DeviceEvents& events, std::vector<ShareWindow>& windows,
             result::TraceShare& whole);

}  // namespace stepcast::trace
