// Calls of collectives by operation, group and bytes.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "stepcast/trace/profile.h"

namespace stepcast::trace {

// Bytes of the larger of a call's input and output; 0: not recorded.
std::int64_t bytes_of(const CollectiveCall& call);

class CollectiveSizes {
 public:
  // The number of the call's row.
  std::uint32_t add(const std::string& operation, const CollectiveCall& call, std::int64_t bytes,
                    Time duration);
  // Puts the rows into `rank`, the longest first, and renumbers the calls that refer to them.
  void finish(result::TraceRank& rank, RankCalls& calls);

 private:
  using Key = std::tuple<std::string, std::string, std::string, std::int64_t>;
  std::map<Key, std::uint32_t> numbers_;
  std::vector<result::TraceCollective> rows_;
  std::vector<std::vector<Time>> durations_;
};

}  // namespace stepcast::trace
