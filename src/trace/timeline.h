// What a page can show of a step: runs of like events, since a step has more kernels than a picture
// has pixels.
#pragma once

#include "critical.h"
#include "links.h"
#include "stepcast/result/trace.h"
#include "stepcast/trace/trace.h"

namespace stepcast::trace {

// Events of one device between two times, by stream, and the critical path between them. Events of
// like kind that follow each other within a thousandth of the window are one run.
result::TraceTimeline timeline(const DeviceEvents& events, const CriticalPath& path, Time from,
                               Time to);

}  // namespace stepcast::trace
