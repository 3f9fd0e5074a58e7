// A model of PyTorch's caching allocator (c10/cuda/CUDACachingAllocator.cpp): rounded sizes, pools, segments and their
// splitting, one arena per stream, blocks that wait for other streams, expandable segments, and the behaviour near the
// limit.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "stepcast/base/id.h"
#include "stepcast/base/quantity.h"

namespace stepcast::memory {

struct AllocatorOptions {
  bool expandable_segments = false;
  Bytes limit{0};              // largest sum of segments; 0: no limit
  double gc_threshold = 0;     // garbage_collection_threshold: share of the limit; 0: off
  std::int64_t max_split = 0;  // max_split_size_mb, in bytes; 0: no bound
  int round_up_divisions = 0;  // roundup_power2_divisions; 0: off
  // Of free blocks of one size that of the oldest segment is taken, as torch 2.15.0 does wherever segments lie. Else that
  // at the lowest address (torch 2.7.1 and 2.11.0), which is the youngest segment's: NVIDIA's driver places each below the
  // one before it.
  bool oldest_segment_first = false;
};

struct AllocatorStats {
  std::int64_t requested = 0;  // bytes of live blocks before rounding
  std::int64_t allocated = 0;  // bytes of live blocks, rounded to 512 and with remainders too small to be split off
  std::int64_t active = 0;     // `allocated` and the released blocks that wait for another stream
  std::int64_t reserved = 0;   // bytes of segments
};

using BlockId = Id<struct BlockTag>;

class CachingAllocator {
 public:
  explicit CachingAllocator(AllocatorOptions options = {});
  ~CachingAllocator();
  CachingAllocator(CachingAllocator&&) noexcept;
  CachingAllocator& operator=(CachingAllocator&&) noexcept;
  CachingAllocator(const CachingAllocator&);
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  // Holds from the next request on.
  void set_limit(Bytes limit);

  // The limits, `from` <= limit < `below`, under which all requests so far would have had the same outcome. Not with a
  // threshold of the garbage collection, which depends on the limit itself.
  struct LimitRange {
    std::int64_t from = 0;
    std::int64_t below = std::numeric_limits<std::int64_t>::max();
  };
  const LimitRange& limits() const;

  // `now` must not decrease from call to call. nullopt: out of memory even after cached segments were given back.
  std::optional<BlockId> allocate(std::int64_t bytes, std::uint8_t stream, Time now = Time{0});
  // `safe`: the time at which the last use on another stream has completed (record_stream). The block can be reused at once
  // where `safe` is not after `now`.
  void release(BlockId block, Time now = Time{0}, Time safe = Time{0});
  // torch.cuda.empty_cache(): gives segments without a live block back to the driver.
  void empty_cache(Time now = Time{0});

  const AllocatorStats& now() const;
  const AllocatorStats& peak() const;
  void reset_peak();
  int retries() const;  // num_alloc_retries

  // The address of a live block. No two segments overlap.
  std::int64_t address(BlockId block) const;
  std::int64_t size(BlockId block) const;  // as `allocated` counts it

  // Memory taken from the driver and given back to it, in order: segments, or pages of an expandable segment.
  struct SegmentEvent {
    Time time{0};
    std::int64_t address = 0, bytes = 0;
    std::uint8_t stream = 0;
    bool made = false, expandable = false;
  };
  const std::vector<SegmentEvent>& segment_events() const;

  // The segments in the order of their creation, and the blocks of each by address, as a memory snapshot shows them.
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
  State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

}  // namespace stepcast::memory
