// Replays a rank's allocator trace through the caching allocator. The program's buffers and the times at which they are
// allocated and released give the bytes that the framework allocates, holds active and reserves.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "stepcast/memory/allocator.h"
#include "stepcast/memory/tape.h"
#include "stepcast/program/program.h"
#include "stepcast/program/timeline.h"

namespace stepcast::memory {

struct ReplayOptions {
  AllocatorOptions allocator;
  // The least number of steps. The trace is that of one step; the first step differs by persistent and lazy buffers. Further
  // steps are replayed until one reserves nothing more, since blocks may be placed otherwise than in the step before.
  int steps = 2;
  Time period{0};       // from step to step; 0: the trace's length
  bool record = false;  // at least two steps; fill `events`, `at_peak`, `at_end`, `segment_events`, `segments`
};

// One tensor's allocation or release in the last step.
struct TensorEvent {
  Time time{0};  // of the step
  BlockId id;
  program::BufferIndex buffer;
  std::uint32_t block = 0;  // into Program::blocks, kNone: the whole buffer
  std::uint32_t trace = 0;  // the event of the trace that it belongs to
  std::int64_t bytes = 0;   // of its block, as `allocated` counts it
  std::int64_t requested = 0;
  std::int64_t address = 0;
  Time safe{0};  // release: when its memory can be used again; at most `time`: at once
  bool allocate = false;
  AllocatorStats after;
};

// A segment made or given back in the last step, ahead of `events[before]`.
struct SegmentEvent {
  CachingAllocator::SegmentEvent event;
  std::uint32_t before = 0;
};

// A tensor that is live at the peak of allocated bytes, or at the end of the step.
struct Tensor {
  BlockId id;
  program::BufferIndex buffer;
  std::uint32_t block = 0;  // kNone: the whole buffer
  std::int64_t bytes = 0;   // as in TensorEvent: the tensors of `at_peak` add up to Replayed::peak.allocated
  std::int64_t requested = 0;
  Time since{0};  // below zero: from the step before
};

struct Replayed {
  AllocatorStats first;   // peaks of the first step, with the buffers that are live before it
  AllocatorStats peak;    // peaks of the last step, as max_memory_reserved: what is given back when memory is short counts
  AllocatorStats steady;  // at the end of the last step
  std::array<std::int64_t, program::kMemoryCategories> at_peak_by_category{};  // add up to peak.allocated
  Time peak_at{0};                                                             // of the step, where the tape has times
  std::optional<std::uint32_t> peak_position;  // the request at which it lies; none: the step begins with it
  bool out_of_memory = false;
  int retries = 0;
  std::vector<TensorEvent> events;
  std::vector<Tensor> at_peak;
  std::vector<Tensor> at_end;  // their ids are those of `segments`
  std::vector<SegmentEvent> segment_events;
  std::vector<CachingAllocator::Segment> segments;  // at the last step's end
};

// `trace` is that of one steady step, in the order of the host (Timeline::memory). Buffers that do not lie on the device are
// ignored. LAW: reserved >= active >= allocated >= requested; a steady step ends as it began.
Replayed replay(const program::Program& program, const std::vector<program::MemoryEvent>& trace,
                const ReplayOptions& options = {});

// Replays of one tape under several limits, which share what happens before a limit is first felt. The tape must outlive
// them; `options.record` is ignored, `options.allocator.limit` is 0.
class Replays {
 public:
  Replays(const RecordedTape& recorded, const ReplayOptions& options);
  ~Replays();
  Replays(const Replays&) = delete;
  Replays& operator=(const Replays&) = delete;

  Replayed without_limit() const;
  Replayed within(Bytes limit);
  // Whether memory does not run out under a limit; `short_of`: further limits of interest are not below.
  bool runs(Bytes limit, Bytes short_of);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stepcast::memory
