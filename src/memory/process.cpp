#include "stepcast/memory/process.h"

namespace stepcast::memory {
namespace {

// Reserved over active memory: the middle of measured runs.
double factor(const Request& r) {
  if (r.expandable_segments) {
    return 1.035;  // one growing segment a stream: 1.02 to 1.05
  }
  if (r.several_streams) {
    return 1.225;  // one arena a stream, peaks add up: 1.15 to 1.3
  }
  return 1.10;  // fragmentation within one stream's segments: up to 1.15
}

}  // namespace

Amounts amounts(const Request& request) {
  const double reserved = static_cast<double>(request.allocated.count()) * factor(request);
  // The allocator grows in segments of 2 MiB.
  constexpr std::int64_t kSegment = 2 << 20;
  const Bytes rounded((static_cast<std::int64_t>(reserved) + kSegment - 1) / kSegment * kSegment);
  return {request.allocated, rounded, rounded + request.outside};
}

}  // namespace stepcast::memory
