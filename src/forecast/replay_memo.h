// What allocators did with tapes that were replayed before, for other ranks or other jobs: many
// jobs differ in times alone, such as those of a sweep over clusters.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>

#include "memory.h"
#include "stepcast/memory/tape.h"

namespace stepcast::forecast {

// What a tape takes of a GPU's memory, in whatever rank's times.
struct TapeMemory {
  RankMemory memory;                  // without `needed`
  Bytes unlimited;                    // reserved where the device has enough
  std::optional<std::uint32_t> peak;  // position
  std::map<Bytes, bool> runs_within;  // of the allocator's limits that were tried
};

// All that a replay reads.
struct ReplayKey {
  std::array<std::uint64_t, 2>
      tape{};  // two digests that share no step: equal ones mean equal tapes
  Bytes outside, capacity;
  bool expandable_segments = false;
  bool oldest_segment_first = false;

  auto operator<=>(const ReplayKey&) const = default;
};

// Of everything in the tape.
std::array<std::uint64_t, 2> digests_of(const memory::Tape& tape);

class ReplayMemo {
 public:
  // Valid until the next keep(); nullptr: not known. A caller may add limits that it has tried.
  TapeMemory* find(const ReplayKey& key);
  TapeMemory& keep(const ReplayKey& key, TapeMemory of);

 private:
  std::map<ReplayKey, TapeMemory> known_;
};

}  // namespace stepcast::forecast
