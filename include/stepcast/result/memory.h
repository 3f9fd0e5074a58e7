// Result of `simulate memory`: each stage's memory over one step, and the tensors live at its peak. Types only.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "stepcast/base/quantity.h"
#include "stepcast/program/program.h"
#include "stepcast/result/fit.h"

namespace stepcast::result {

using MemoryByCategory = std::array<std::int64_t, program::kMemoryCategories>;

// Memory just after one allocation or release. Times are those of the GPU's compute stream; the host, which allocates, runs
// ahead of it.
struct MemorySample {
  Time at{0};
  MemoryByCategory by_category{};  // bytes live; add up to `allocated`
  std::int64_t allocated = 0, active = 0, reserved = 0;
};

struct StandingTensor {  // live tensors of one label and size, counted together
  std::string label;     // "FC1 input"
  std::string part_of;   // the buffer it is a part of, such as "activations"; empty: it is a buffer itself
  program::MemoryCategory category = program::MemoryCategory::other;
  std::string stream;
  std::int64_t bytes = 0;  // of one tensor, as `allocated` counts it
  std::int64_t count = 0;
  Time since{0};             // allocation of the oldest one of this step
  bool from_before = false;  // some were allocated in an earlier step
  std::int64_t total() const { return bytes * count; }
};

// The allocator over one step, as PyTorch's memory snapshot holds it: segments and blocks at the step's end, and the
// events that led there from its start.
struct AllocatorSnapshot {
  static constexpr std::uint32_t kNoLabel = 0xffffffffU;
  enum class State : std::uint8_t { active_allocated, active_pending_free, inactive };
  struct Block {
    std::int64_t address = 0, size = 0, requested = 0;
    State state = State::inactive;
    std::uint32_t label = kNoLabel;
  };
  struct Segment {
    std::int64_t address = 0, total = 0;
    int stream = 0;
    bool small = false, expandable = false;
    std::vector<Block> blocks;  // by address, without a gap
  };
  enum class Action : std::uint8_t {
    alloc,
    free_requested,
    free_completed,
    segment_alloc,
    segment_free,
    segment_map,
    segment_unmap
  };
  struct Event {
    Action action = Action::alloc;
    std::int64_t address = 0, size = 0;  // size: of a block as requested, of a segment the whole
    int stream = 0;
    Time at{0};  // on the host's clock
    std::uint32_t label = kNoLabel;
  };
  struct Label {
    std::string name, part_of;  // as in StandingTensor
    program::MemoryCategory category = program::MemoryCategory::other;
  };
  bool expandable_segments = false;
  std::vector<Label> labels;
  std::vector<Segment> segments;
  std::vector<Event> events;
};

struct StageTimeline {
  int stage = 0;
  Bytes allocated, active, reserved, process, first_step;  // peaks
  Bytes steady;                                            // allocated at the step's end
  struct Outside {                                         // memory outside the allocator: adds up to process - reserved
    std::string what;                                      // "CUDA context", "NCCL tensor"
    Bytes bytes;
  };
  std::vector<Outside> outside;
  Bytes host, nvme;
  int retries = 0;  // of the allocator, over the replayed steps; a stage that does not fit is replayed without a limit
  // The peak of allocated bytes: its time, and the work around it.
  Time peak_at{0};
  std::string peak_in;                  // the task that the host issues next; empty: the step has no more
  int micro_batch = -1, chunk = -1;     // of that task; -1: it belongs to none
  MemoryByCategory peak{};              // adds up to `allocated`
  std::vector<MemorySample> samples;    // thinned to what a picture can show; the first and the last are equal
  std::vector<StandingTensor> at_peak;  // largest total first; add up to `allocated`
  AllocatorSnapshot snapshot;
};

struct MemoryTimeline {
  std::string job_json;  // the resolved job (config writes it)
  std::string title;
  std::int64_t ranks = 0;  // of the whole job
  Time step{0};
  Bytes capacity;  // usable, of the GPU with least to spare
  Fit fits;
  std::vector<StageTimeline> stages;
};

}  // namespace stepcast::result
