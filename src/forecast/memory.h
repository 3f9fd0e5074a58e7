// Memory of every rank of a simulated world: allocated, active and reserved by its framework, and
// used by its process.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stepcast/cost/open_facts.h"
#include "stepcast/cost/structure.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/program/program.h"
#include "stepcast/program/timeline.h"

namespace stepcast::forecast {

// A key of the job whose value is assumed, and what that leaves open.
struct OpenKey {
  std::string key;
  const cost::OpenFact* fact = nullptr;
};

struct RankMemory {
  Bytes allocated, active;  // peaks of a steady step
  Bytes reserved, process;  // from the first step on
  Bytes steady, first;      // allocated bytes at the step's end, and at the peak of the first step
  std::array<std::int64_t, program::kMemoryCategories> by_category{};  // add up to `allocated`
  Time at{0};
  // The least memory of a process in which the job runs: cached blocks are given back before an
  // allocation fails, so it may lie below `process`. Within a sixteenth of what is cached; of a
  // rank that is not the least likely to fit, at most this.
  Bytes needed;
  bool fits = true;
  int retries = 0;  // number of times that the allocator freed its cache in the replayed steps, and
                    // only then fitted
};

class ReplayMemo;

// Two digests that share no step: equal ones mean equal contents.
using DigestPair = std::array<std::uint64_t, 2>;

// Of what a tape is recorded from where no block waits.
struct SourceDigests {
  DigestPair all{};
  // But for sizes: tapes of one form are alike but for the sizes of their calls.
  DigestPair form{};

  bool operator==(const SourceDigests&) const = default;
};

// Every release of the allocator traces is as if other streams had come past their uses of it.
void free_at_once(program::Timeline& timeline);

// The ranks whose allocator traces `rank_memory` reads: the first of each program.
std::vector<program::RankId> traced_ranks(const program::World& world);

// What is not known about a rank's memory, as set_deviations takes it.
struct MemoryDoubts {
  const cost::MemoryStructure* beside = nullptr;  // never null
  const std::vector<OpenKey>* open = nullptr;     // likewise
};

// A rank's memory as that of a stage in the report, with its deviations.
result::StageMemory stage_memory(const RankMemory& r, const MemoryDoubts& doubts);

// The memory of each rank of the world. LAW: ranks of one program make the same requests in the
// same order. The times at which other streams release a block may differ between them; those of
// the first rank are used for all. Folded worlds keep that rank, so the result does not depend on
// folding. `capacity`: memory that a process may use, by rank. `memo`: what is known of replays.
// `sources`: by program, digests of what its tape is recorded from; filled where they are wanted.
// `threads`: that may replay.
std::vector<RankMemory> rank_memory(const program::World& world, const program::Timeline& timeline,
                                    const std::vector<Bytes>& capacity, AllocatorKind kind,
                                    bool several_streams, bool oldest_segment_first,
                                    Allocator allocator, const MemoryDoubts& doubts,
                                    std::vector<std::optional<SourceDigests>>& sources,
                                    ReplayMemo& memo, std::size_t threads = 1,
                                    const Stop* stop = nullptr);

// The probability that a capacity is enough for memory whose forecast has a relative standard
// deviation (of a normal distribution, as in the 90 % intervals); without one it is 0 or 1.
double fit_probability(Bytes needed, double deviation, Bytes capacity);

// Sets the deviations of a stage's memory: what is reserved adds fragmentation and the free blocks
// that are found to what is allocated, and a process adds what lies outside the allocator; all
// parts are taken as independent.
void set_deviations(const cost::MemoryStructure& beside, const std::vector<OpenKey>& open,
                    result::StageMemory& memory);

}  // namespace stepcast::forecast
