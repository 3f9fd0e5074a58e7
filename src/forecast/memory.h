// Memory of every rank of a simulated world: what its framework allocates, keeps active and
// reserves, and what its process takes.
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
  Bytes steady, first;      // allocated: at the step's end; peak of the first step
  std::array<std::int64_t, program::kMemoryCategories> by_category{};  // add up to `allocated`
  Time at{0};
  bool fits = true;
  int retries = 0;  // of the allocator, within the steps replayed: it fits because cached memory
                    // was given back
};

// The ranks whose allocator traces `rank_memory` reads: the first of each program.
std::vector<program::RankId> traced_ranks(const program::World& world);

// By rank of the world. LAW: ranks of one program make the same requests in one order; when other
// streams are done with a block may differ between them, and the first one's times stand for all.
// Folded worlds keep that rank, so the result does not depend on folding. `capacity`: what a
// process may use, by rank.
std::vector<RankMemory> rank_memory(const program::World& world, const program::Timeline& timeline,
                                    const std::vector<Bytes>& capacity, AllocatorKind kind,
                                    bool several_streams, Allocator allocator,
                                    const Stop* stop = nullptr);

// Of a process's memory, bytes: what is uncertain is the framework's tensors and what lies outside
// the allocator.
result::Estimate memory_interval(Bytes reserved, Bytes outside, double spread);

}  // namespace stepcast::forecast
