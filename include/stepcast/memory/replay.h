// A rank's allocator trace through the caching allocator: from the program's buffers and when they are allocated and
// released to what the framework allocates, keeps active and reserves.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "stepcast/memory/allocator.h"
#include "stepcast/program/program.h"
#include "stepcast/program/timeline.h"

namespace stepcast::memory {

struct ReplayOptions {
  AllocatorOptions allocator;
  // At least so many (the trace is one step's; the first differs by what stands before it and what is lazy), and on until a
  // step reserves nothing more: blocks may fall into place otherwise than in the step before.
  int steps = 2;
  std::int64_t period = 0;  // picoseconds from step to step; 0: the trace's length
  bool record = false;      // at least two steps; fill `events`, `at_peak`, `at_end`, `segment_events`, `segments`
};

// One tensor's allocation or release in the last step.
struct TensorEvent {
  std::int64_t time = 0;  // picoseconds of the step
  BlockId id = 0;
  std::uint32_t buffer = 0;  // into Program::buffers
  std::uint32_t block = 0;   // into Program::blocks, kNone: the whole buffer
  std::uint32_t trace = 0;   // the event of the trace that it belongs to
  std::int64_t bytes = 0;    // of its block, as `allocated` counts it
  std::int64_t requested = 0;
  std::int64_t address = 0;
  std::int64_t safe = 0;  // release: when its memory can be used again; at most `time`: at once
  bool allocate = false;
  AllocatorStats after;
};

// A segment made or given back in the last step, ahead of `events[before]`.
struct SegmentEvent {
  CachingAllocator::SegmentEvent event;
  std::uint32_t before = 0;
};

struct Tensor {  // that stands at the peak of allocated bytes, or at the end of the step
  BlockId id = 0;
  std::uint32_t buffer = 0;
  std::uint32_t block = 0;  // kNone: the whole buffer
  std::int64_t bytes = 0;   // as in TensorEvent: the tensors of `at_peak` add up to Replayed::peak.allocated
  std::int64_t requested = 0;
  std::int64_t since = 0;  // picoseconds; below zero: from the step before
};

struct Replayed {
  AllocatorStats first;   // peaks of the first step, what stands before it included
  AllocatorStats peak;    // of the last step; `reserved` is at its end, as it never shrinks by itself
  AllocatorStats steady;  // at its end
  std::array<std::int64_t, program::kMemoryCategories> at_peak_by_category{};  // add up to peak.allocated
  std::int64_t peak_at = 0;                                                    // picoseconds of the step
  bool out_of_memory = false;
  int retries = 0;
  std::vector<TensorEvent> events;
  std::vector<Tensor> at_peak;
  std::vector<Tensor> at_end;  // their ids are those of `segments`
  std::vector<SegmentEvent> segment_events;
  std::vector<CachingAllocator::Segment> segments;  // at the last step's end
};

// `trace`: of one steady step, in the order of the host (Timeline::memory). Buffers whose place is not the device are left
// out. LAW: reserved >= active >= allocated >= requested; a steady step ends as it began.
Replayed replay(const program::Program& program, const std::vector<program::MemoryEvent>& trace,
                const ReplayOptions& options = {});

}  // namespace stepcast::memory
