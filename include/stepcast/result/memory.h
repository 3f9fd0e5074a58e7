// What `simulate memory` shows: each stage's memory over one step, and what stands at its peak. Types only.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "stepcast/base/quantity.h"
#include "stepcast/program/program.h"

namespace stepcast::result {

struct MemorySample {
  Time at{0};
  std::array<std::int64_t, program::kMemoryCategories> by_category{};  // bytes live
  std::int64_t allocated = 0, active = 0, reserved = 0;
};

struct StandingTensor {  // tensors of one label and size, counted together
  std::string label;
  program::MemoryCategory category = program::MemoryCategory::other;
  std::string stream;
  std::int64_t bytes = 0;  // of one
  std::int64_t count = 0;
  Time since{0};  // the oldest; below zero: from the step before
};

// What PyTorch's memory snapshot holds.
struct AllocatorSnapshot {
  struct Block {
    std::int64_t address = 0, size = 0, requested = 0;
    std::string state;  // active_allocated, active_pending_free, inactive
    std::string label;
  };
  struct Segment {
    std::int64_t address = 0, total = 0, allocated = 0, active = 0, requested = 0;
    int stream = 0;
    std::string type;  // small, large
    bool expandable = false;
    std::vector<Block> blocks;
  };
  struct Event {
    std::string action;  // alloc, free_requested, free_completed, segment_alloc, segment_free
    std::int64_t address = 0, size = 0;
    int stream = 0;
    Time at{0};
    std::string label;
  };
  std::vector<Segment> segments;
  std::vector<Event> events;
};

struct StageTimeline {
  int stage = 0;
  Bytes allocated, active, reserved, process, first_step;  // peaks
  Bytes outside;                                           // of the allocator: process - reserved
  struct Outside {
    std::string what;  // "CUDA context", "NCCL tensor"
    Bytes bytes;
  };
  std::vector<Outside> outside_parts;  // add up to `outside`
  Bytes host, nvme;
  int retries = 0;
  bool out_of_memory = false;
  Time step{0}, peak_at{0};
  std::vector<MemorySample> samples;    // where something changes, thinned to what a picture can show
  std::vector<StandingTensor> at_peak;  // largest total first; add up to `allocated`
  AllocatorSnapshot snapshot;
};

struct MemoryTimeline {
  std::string title;
  Bytes capacity;
  bool fits = true;
  std::vector<StageTimeline> stages;
};

}  // namespace stepcast::result
