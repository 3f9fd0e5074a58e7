#include "timeline.h"

#include <algorithm>
#include <map>

namespace stepcast::trace {
namespace {

// Kinds that a picture tells apart.
const char* group_of(Kind kind) {
  switch (kind) {
    case Kind::gemm:
    case Kind::grouped_gemm:
    case Kind::convolution:
      return "products";
    case Kind::attention:
      return "attention";
    case Kind::communication:
      return "communication";
    default:
      return class_of(kind) == Class::copy ? "copies" : "memory-bound and other";
  }
}

}  // namespace

result::TraceTimeline timeline(const Trace& trace, std::size_t first, std::size_t last, Time from,
                               Time to) {
  constexpr std::int64_t kParts = 1000;  // of the window that a picture resolves
  const Time pixel = (to - from) / kParts;
  result::TraceTimeline out;
  out.from = from, out.to = to;
  struct Open {
    std::size_t row = 0;
    Time longest{0};
  };
  std::map<std::uint32_t, Open> rows;  // by stream
  for (std::size_t i = first; i < last; ++i) {
    const DeviceEvent& event = trace.events[i];
    const Time start = std::max(event.start, from), end = std::min(event.end(), to);
    if (start >= to || end < from) {
      continue;
    }
    const auto [at, is_new] = rows.try_emplace(event.stream, Open{out.rows.size(), Time(0)});
    if (is_new) {
      out.rows.push_back({trace.streams[event.stream].stream, {}});
    }
    auto& runs = out.rows[at->second.row].runs;
    const KernelName& name = trace.known[event.name];
    const std::string group = group_of(name.kind);
    if (runs.empty() || runs.back().kind != group || start - runs.back().to > pixel) {
      runs.push_back({group, start, end, 0, ""});
      at->second.longest = Time(-1);
    }
    result::TraceRun& run = runs.back();
    run.to = std::max(run.to, end);
    ++run.count;
    if (event.duration > at->second.longest) {
      at->second.longest = event.duration;
      run.longest = name.shown;
    }
  }
  return out;
}

}  // namespace stepcast::trace
