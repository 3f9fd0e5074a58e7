// What allocators did with tapes that were replayed before, for other ranks or other jobs: many
// jobs differ in times alone, such as those of a sweep over clusters.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "memory.h"
#include "stepcast/memory/tape.h"

namespace stepcast::forecast {

// What a tape takes where memory does not run out, whatever lies beside it: GPUs of other sizes,
// and NCCL with other buffers, change nothing of it.
struct UnlimitedReplay {
  RankMemory memory;    // as if nothing lay outside the allocator
  Bytes peak_reserved;  // in a steady step
  std::optional<memory::TracePlace> peak;
};

// What a tape takes of a GPU's memory, in whatever rank's times.
struct TapeMemory {
  RankMemory memory;  // without `needed`
  Bytes unlimited;    // reserved where the device has enough
  std::optional<memory::TracePlace> peak;
  std::map<Bytes, bool> runs_within;  // of the allocator's limits that were tried
};

// All that a replay without a limit reads.
struct TapeKey {
  DigestPair tape{};  // or of all that it is recorded from
  bool expandable_segments = false;
  bool oldest_segment_first = false;

  auto operator<=>(const TapeKey&) const = default;
};

// All that a replay reads.
struct ReplayKey {
  TapeKey tape;
  Bytes outside, capacity;

  auto operator<=>(const ReplayKey&) const = default;
};

// Of everything in the tape.
DigestPair digests_of(const memory::Tape& tape);
// Of all that a tape is recorded from where no block waits: of the trace's times nothing.
SourceDigests digests_of(const program::Program& p, const std::vector<program::MemoryEvent>& trace);

class ReplayMemo {
 public:
  // Valid until the next keep(); nullptr: not known. A caller may add limits that it has tried.
  TapeMemory* find(const ReplayKey& key);
  TapeMemory& keep(const ReplayKey& key, TapeMemory of);
  const UnlimitedReplay* find(const TapeKey& key) const;  // nullptr: not known
  void keep(const TapeKey& key, const UnlimitedReplay& of);

  // A tape of this form, with the sizes that it was set to last; nullptr: none is kept. Both are
  // valid until the next keep_tape().
  memory::RecordedTape* find_tape(const DigestPair& form);
  // Where a tape of a form is to be recorded; nullptr: it need not be kept. It is once its form
  // comes again: most jobs have no neighbours.
  memory::RecordedTape* keep_tape(const DigestPair& form);

 private:
  struct KeptTape {
    DigestPair form{};
    std::unique_ptr<memory::RecordedTape> tape;
  };

  std::map<ReplayKey, TapeMemory> known_;
  std::map<TapeKey, UnlimitedReplay> unlimited_;
  std::vector<KeptTape> tapes_;    // the last used first
  std::vector<DigestPair> forms_;  // of tapes that were not kept, the last first
};

}  // namespace stepcast::forecast
