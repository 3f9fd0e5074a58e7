// Memory of every rank of a simulated world: allocated, active and reserved by its framework, and
// used by its process.
#pragma once

#include <array>
#include <vector>

#include "stepcast/forecast/forecaster.h"
#include "stepcast/program/program.h"
#include "stepcast/program/timeline.h"

namespace stepcast::forecast {

struct RankMemory {
  Bytes allocated, active;  // peaks of a steady step
  Bytes reserved, process;  // from the first step on
  Bytes steady, first;      // allocated bytes at the step's end, and at the peak of the first step
  std::array<std::int64_t, program::kMemoryCategories> by_category{};  // add up to `allocated`
  Time at{0};
  bool fits = true;
  int retries = 0;  // number of times that the allocator freed its cache in the replayed steps, and
                    // only then fitted
};

// The ranks whose allocator traces `rank_memory` reads: the first of each program.
std::vector<program::RankId> traced_ranks(const program::World& world);

// The memory of each rank of the world. LAW: ranks of one program make the same requests in the
// same order. The times at which other streams release a block may differ between them; those of
// the first rank are used for all. Folded worlds keep that rank, so the result does not depend on
// folding. `capacity`: memory that a process may use, by rank.
std::vector<RankMemory> rank_memory(const program::World& world, const program::Timeline& timeline,
                                    const std::vector<Bytes>& capacity, AllocatorKind kind,
                                    bool several_streams, Allocator allocator,
                                    const Stop* stop = nullptr);

// The interval of a process's memory, in bytes. Both the framework's tensors and the memory outside
// the allocator are uncertain.
result::Estimate memory_interval(Bytes reserved, Bytes outside, double spread);

}  // namespace stepcast::forecast
