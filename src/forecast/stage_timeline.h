// From a recorded replay of one rank's allocator to its stage in the result of `simulate memory`.
#pragma once

#include <string>
#include <vector>

#include "stepcast/memory/replay.h"
#include "stepcast/program/program.h"
#include "stepcast/program/timeline.h"
#include "stepcast/result/memory.h"

namespace stepcast::forecast {

// A tensor's own label, and that of the buffer that it is a part of; kNone where it is a buffer
// itself.
struct Names {
  std::uint32_t label = 0;
  std::uint32_t part_of = program::kNone;
};
Names names_of(const program::Program& program, program::BufferIndex buffer, std::uint32_t block);
std::string text_of(const program::Program& program, std::uint32_t label);

// The time of each replayed event on the GPU: the begin of the task that the compute stream runs
// next, in the step. The host, which allocates, is ahead of it. `slices` must
// include the step of `rank`.
std::vector<Time> gpu_clock(const program::Program& program,
                            const std::vector<program::MemoryEvent>& trace,
                            const std::vector<program::Slice>& slices, program::RankId rank,
                            const memory::Replayed& replayed);

// Fills the place of the peak, the samples and the tensors live at the peak. `replayed` is the
// recording of a steady step, `clock` has a time for each of its events. LAW: a sample's categories
// add up to its allocated bytes, and the tensors at the peak to those of the peak; the first and
// the last sample are equal.
void fill_timeline(const program::Program& program, const memory::Replayed& replayed,
                   const std::vector<Time>& clock, result::StageTimeline& stage);

// LAW: the events turn the state at the step's start into the segments at its end.
void fill_snapshot(const program::Program& program, const memory::Replayed& replayed,
                   result::AllocatorSnapshot& snapshot);

}  // namespace stepcast::forecast
