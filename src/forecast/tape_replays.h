// Replays of the allocator of ranks: what is known is not replayed again, and what is not, several
// threads replay.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "memory.h"
#include "replay_memo.h"
#include "stepcast/base/stop.h"
#include "stepcast/memory/replay.h"
#include "stepcast/memory/tape.h"

namespace stepcast::forecast {

// Whether a job fits is decided by the rank least likely to fit. What others need at least is not
// looked for once they are known to be likelier: less memory only makes them likelier still.
class LeastLikely {
 public:
  explicit LeastLikely(const MemoryDoubts& doubts) : doubts_(doubts) {}

  double deviation(const RankMemory& m) const { return stage_memory(m, doubts_).process_deviation; }
  // Whether a rank that runs in `enough`, or in less, may be the one.
  bool may_be(Bytes enough, double deviation, Bytes capacity) const {
    return fit_probability(enough, deviation, capacity) <= least_;
  }
  void note(Bytes needed, double deviation, Bytes capacity) {
    least_ = std::min(least_, fit_probability(needed, deviation, capacity));
  }

 private:
  MemoryDoubts doubts_;
  double least_ = 1;  // of the ranks so far
};

// A rank whose memory is asked for.
struct TracedRank {
  const program::Program* program = nullptr;
  const std::vector<program::MemoryEvent>* trace = nullptr;
  Bytes capacity;
  // Of what its tape is recorded from, where that is known; found where it is wanted.
  std::optional<SourceDigests>* source = nullptr;
};

// Replays what has not been replayed: ranks whose calls are the same differ in times alone.
class TapeReplays {
 public:
  TapeReplays(memory::ReplayOptions options, ReplayMemo& memo, const MemoryDoubts& doubts);
  ~TapeReplays();

  // Replays what memory_of() will want of these ranks, on up to so many threads. What ranks take
  // does not depend on it. Ranks of one program have the same source.
  void replay_ahead(const std::vector<TracedRank>& ranks, Time period, std::size_t threads,
                    const Stop* stop);
  RankMemory memory_of(const TracedRank& rank, Time period);

 private:
  class Replay;
  using Which = std::pair<const program::Program*, Bytes>;  // and capacity

  memory::ReplayOptions options_;
  ReplayMemo& memo_;
  LeastLikely least_;
  // Of ranks that were replayed ahead and may have to be replayed within limits.
  std::map<Which, std::unique_ptr<Replay>> ahead_;
  std::unique_ptr<memory::RecordedTape> storage_;  // kept from rank to rank
};

}  // namespace stepcast::forecast
