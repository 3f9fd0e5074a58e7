// Where the time of profiled ranks went.
#pragma once

#include <filesystem>
#include <vector>

#include "stepcast/result/trace.h"
#include "stepcast/trace/trace.h"

namespace stepcast::trace {

// One call of communication, for the comparison of ranks.
struct RankCall {
  std::uint32_t row = 0;  // in TraceRank::communication
  std::uint32_t key = 0;  // in RankCalls::keys
  Time duration{0};
  std::uint32_t size = ~std::uint32_t{0};  // in TraceRank::collectives; ~0: its bytes are not recorded
};

// All calls of one rank, in order of time.
struct RankCalls {
  std::vector<std::string> keys;  // step, operation and group: calls of equal keys are matched in their order
  std::vector<RankCall> calls;
};

// The profile of one trace, whose events it sorts. `calls`: for compare_ranks.
result::TraceRank profile(Trace& trace, RankCalls& calls);

// Tells waiting from transfer in collectives that synchronise their ranks: of the ranks of a call, the one with the shortest
// kernel came last and waited for nobody; what others took longer they waited. So the ranks' clocks need not agree. Calls
// are matched by their order within a step, where all ranks of a group made equally many.
void compare_ranks(std::vector<result::TraceRank>& ranks, const std::vector<RankCalls>& calls);

// Reads the traces, one after the other, and profiles them. Throws InputError as read() does, and where two files hold the
// same rank.
result::TraceProfile profile_files(const std::vector<std::filesystem::path>& files);

}  // namespace stepcast::trace
