// PyTorch's caching allocator as a model (c10/cuda/CUDACachingAllocator.cpp): sizes, pools, segments, splitting, one arena a
// stream, blocks that wait for other streams, expandable segments, what happens near the limit.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "stepcast/base/quantity.h"

namespace stepcast::memory {

struct AllocatorOptions {
  bool expandable_segments = false;
  Bytes limit{0};              // what segments may add up to; 0: no limit
  double gc_threshold = 0;     // garbage_collection_threshold: share of the limit; 0: off
  std::int64_t max_split = 0;  // max_split_size_mb, in bytes; 0: no bound
  int round_up_divisions = 0;  // roundup_power2_divisions; 0: off
};

struct AllocatorStats {
  std::int64_t requested = 0;  // live, before rounding
  std::int64_t allocated = 0;  // live blocks: rounded to 512 bytes, and remainders that were not worth splitting off
  std::int64_t active = 0;     // and those that wait for another stream
  std::int64_t reserved = 0;   // segments
};

using BlockId = std::uint32_t;

class CachingAllocator {
 public:
  explicit CachingAllocator(AllocatorOptions options = {});
  ~CachingAllocator();
  CachingAllocator(CachingAllocator&&) noexcept;
  CachingAllocator& operator=(CachingAllocator&&) noexcept;

  // `now` never goes back. nullopt: out of memory, after cached segments were given back.
  std::optional<BlockId> allocate(std::int64_t bytes, std::uint8_t stream, std::int64_t now = 0);
  // `safe`: when the last use on another stream has completed (record_stream); at most `now`: at once.
  void release(BlockId block, std::int64_t now = 0, std::int64_t safe = 0);
  // torch.cuda.empty_cache(): gives back segments without a live block.
  void empty_cache(std::int64_t now = 0);

  const AllocatorStats& now() const;
  const AllocatorStats& peak() const;
  void reset_peak();
  int retries() const;  // num_alloc_retries

  // Where a live block lies; segments have addresses of their own.
  std::int64_t address(BlockId block) const;
  std::int64_t size(BlockId block) const;  // as `allocated` counts it

  // Memory taken from the driver and given back, in order: segments, or the pages of an expandable one.
  struct SegmentEvent {
    std::int64_t time = 0, address = 0, bytes = 0;
    std::uint8_t stream = 0;
    bool made = false, expandable = false;
  };
  const std::vector<SegmentEvent>& segment_events() const;

  // Segments in order of creation, their blocks by address: what a memory snapshot shows.
  struct Block {
    std::int64_t offset = 0, bytes = 0, requested = 0;
    enum class State : std::uint8_t { live, waiting, free } state = State::free;
    std::optional<BlockId> id;  // of a live or waiting one
  };
  struct Segment {
    std::int64_t address = 0, bytes = 0;
    std::uint8_t stream = 0;
    bool small = false, expandable = false;
    std::vector<Block> blocks;
  };
  std::vector<Segment> segments() const;

  struct State;  // of the implementation

 private:
  std::unique_ptr<State> state_;
};

}  // namespace stepcast::memory
