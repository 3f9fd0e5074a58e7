// The profile of a made-up trace.
#pragma once

#include <string>

#include "made_trace.h"
#include "stepcast/trace/profile.h"

namespace stepcast::test {

inline constexpr const char* kReduce = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(int)";

inline result::TraceRank profiled(const std::string& text) {
  const Folder folder;
  trace::Trace read = trace::read(file_of(folder, "made.json", text));
  trace::RankCalls calls;
  return trace::profile(read, calls);
}

inline result::TraceRank profiled(const MadeTrace& made) { return profiled(made.text()); }

}  // namespace stepcast::test
