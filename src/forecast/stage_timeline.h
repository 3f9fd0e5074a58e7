// From a recorded replay of one rank's allocator to what `simulate memory` shows of its stage.
#pragma once

#include <string>
#include <vector>

#include "stepcast/memory/replay.h"
#include "stepcast/program/program.h"
#include "stepcast/program/timeline.h"
#include "stepcast/result/memory.h"

namespace stepcast::forecast {

// A tensor's own label, and that of the buffer it is a part of: kNone where it is one by itself.
struct Names {
  std::uint32_t label = 0;
  std::uint32_t part_of = program::kNone;
};
Names names_of(const program::Program& program, std::uint32_t buffer, std::uint32_t block);
std::string text_of(const program::Program& program, std::uint32_t label);

// When the GPU gets to each of the replayed events: the begin of what the compute stream runs next,
// in picoseconds of the step. The host, which allocates, is ahead of it. `slices` are those of
// `rank`'s step.
std::vector<std::int64_t> gpu_clock(const program::Program& program,
                                    const std::vector<program::MemoryEvent>& trace,
                                    const std::vector<program::Slice>& slices, program::RankId rank,
                                    const memory::Replayed& replayed);

// Fills the peak's place, the samples and what stands at the peak; `replayed` is of a steady step,
// recorded, `clock` has a time for each of its events. LAW: a sample's categories add up to its
// allocated bytes, the tensors at the peak to the peak's; the first and the last sample are alike.
void fill_timeline(const program::Program& program, const memory::Replayed& replayed,
                   const std::vector<std::int64_t>& clock, result::StageTimeline& stage);

// LAW: the events, from what stood at the step's start, lead to the segments.
void fill_snapshot(const program::Program& program, const memory::Replayed& replayed,
                   result::AllocatorSnapshot& snapshot);

}  // namespace stepcast::forecast
