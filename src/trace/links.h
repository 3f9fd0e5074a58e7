// What belongs to each device event of a trace: its launch, the operator that made it, its step.
#pragma once

#include <vector>

#include "stepcast/trace/trace.h"

namespace stepcast::trace {

// `whole`: the trace does not tell forward from backward.
enum class Phase : std::uint8_t { forward, backward, optimizer, whole };

struct Links {
  // One for each of Trace::events; kNone: the trace does not say.
  std::vector<std::uint32_t> launch;  // in Trace::launches
  std::vector<std::uint32_t> host;    // in Trace::host: the innermost operator around the launch
  std::vector<std::uint32_t> step;    // in Trace::steps: that in which the host launched it
  std::vector<Phase> phase;           // in which the host launched it
};

// Sorts launches, operators and phases of `trace`.
Links link(Trace& trace);

}  // namespace stepcast::trace
