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

constexpr std::int64_t kParts = 1000;  // of the window that a picture resolves

// The path's pieces come from its end, and are put in order of time.
std::vector<result::TraceRun> path_runs(const Trace& trace, const CriticalPath& path, Time from,
                                        Time to) {
  std::vector<result::TraceRun> out;
  Time longest{0};
  path.walk(from, to, [&](const PathPiece& piece) {
    const bool event = piece.event != kNone;
    const KernelName* name = event ? &trace.known[trace.events[piece.event].name] : nullptr;
    const std::string group = event ? group_of(name->kind) : piece.host ? "host" : "gap";
    // A short gap between like kernels is no run of its own.
    if (group == "gap" && piece.to - piece.from <= (to - from) / kParts) {
      return;
    }
    if (out.empty() || out.back().kind != group ||
        out.back().from - piece.to > (to - from) / kParts) {
      out.push_back({group, piece.from, piece.to, 0, ""});
      longest = Time(-1);
    }
    result::TraceRun& run = out.back();
    run.from = piece.from;
    ++run.count;
    if (event && piece.to - piece.from > longest) {
      longest = piece.to - piece.from;
      run.longest = name->shown;
    }
  });
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace

result::TraceTimeline timeline(const DeviceEvents& events, const CriticalPath& path, Time from,
                               Time to) {
  const Trace& trace = events.trace;
  const Time pixel = (to - from) / kParts;
  result::TraceTimeline out;
  out.from = from, out.to = to;
  struct Open {
    std::size_t row = 0;
    Time longest{0};
  };
  std::map<std::uint32_t, Open> rows;  // by stream
  for (std::size_t i = events.first; i < events.last; ++i) {
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
  out.path = path_runs(trace, path, from, to);
  return out;
}

}  // namespace stepcast::trace
