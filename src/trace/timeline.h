// What a page can show of a step: runs of like events, since a step has more kernels than a picture
// has pixels.
#pragma once

#include "links.h"
#include "stepcast/result/trace.h"
#include "stepcast/trace/trace.h"

namespace stepcast::trace {

// Events `first` to `last` of one device between two times, by stream. Events of like kind that
// follow each other within a thousandth of the window are one run.
result::TraceTimeline timeline(const Trace& trace, std::size_t first, std::size_t last, Time from,
                               Time to);

}  // namespace stepcast::trace
