// The state of the caching allocator; its parts live in allocator_calls.h (requests and releases,
// as far as blocks at hand serve them), allocator.cpp (segments, and the interface), expandable.cpp
// (arenas that grow) and reclaim.cpp (what happens when memory is short).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "free_list.h"
#include "stepcast/memory/allocator.h"

namespace stepcast::memory {

// SOURCE: PyTorch, c10/cuda/CUDACachingAllocator.cpp and CUDAAllocatorConfig.h.
constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kSmallSize = kMiB;         // largest request of the small pool
constexpr std::int64_t kSmallBuffer = 2 * kMiB;   // segments and pages of the small pool
constexpr std::int64_t kLargeBuffer = 20 * kMiB;  // and of the large pool, below kMinLargeAlloc
// A request of at least so much gets a segment of its own size, rounded up to kRoundLarge.
constexpr std::int64_t kMinLargeAlloc = 10 * kMiB;
constexpr std::int64_t kRoundLarge = 2 * kMiB;

struct SegmentRecord {
  std::int64_t address = 0;
  std::int64_t bytes = 0;         // of an expandable segment: those that have pages
  std::uint32_t first = kNoNode;  // kNoNode: the driver has it back
  std::uint8_t stream = 0;
  bool small = false;
  bool expandable = false;
};

// Of one stream, small or large blocks.
struct Arena {
  FreeList free;
  std::vector<std::uint32_t> unmapped;  // nodes without pages, by address
};

// Which rules a call of the allocator may meet. The usual ones are those of options as PyTorch has
// them by itself, while no block waits for another stream: what else there is costs a fifth of a
// call to rule out. Bytes that are active are those that are allocated then, and are brought up to
// date behind the calls.
enum class Rules : std::uint8_t { usual, all };

struct CachingAllocator::State {
  struct Waiting {
    Time safe{0};
    std::uint32_t node = 0;
  };
  struct Request {
    std::int64_t bytes = 0;  // rounded
    std::uint8_t stream = 0;
    bool small = false;
  };

  AllocatorOptions options;
  AllocatorStats now, peak;
  LimitRange limits;
  int retries = 0;
  Time clock{0};  // time of the last call that took memory from the driver or gave it back
  std::vector<SegmentEvent> events;
  std::vector<Node> nodes = {no_node()};  // [kNoNode]
  std::uint32_t unused = kNoNode;  // a list through Node::next, the last that was dropped first
  std::vector<SegmentRecord> segments;
  std::vector<std::uint32_t> unused_segments;
  std::vector<Arena> arenas;          // [2 * stream + small]
  std::size_t arenas_made = 0;        // their number, which size() would divide for
  std::vector<Waiting> waiting;       // a heap, the first to become free on top
  std::int64_t next_address = 0;      // of the next segment, or, where addresses fall, its end
  std::int64_t searches[2] = {0, 0};  // by pool, for the garbage collection

  // allocator_calls.h
  bool meets_usual_rules() const;
  void note_active();  // behind calls by the usual rules
  // A request begins, take_free() or make_room() finds its block, which is handed out.
  template <Rules kRules>
  Request begin(std::int64_t bytes, std::uint8_t stream, Time at);
  template <Rules kRules>
  void give_back(std::uint32_t n, Time at, Time safe);
  std::int64_t round(std::int64_t bytes) const;
  std::uint32_t make_node();
  void drop_node(std::uint32_t n);
  void absorb_next(std::uint32_t n);
  void absorb_previous(std::uint32_t n);
  template <Rules kRules>
  void make_free(std::uint32_t n);
  template <Rules kRules>
  bool splits(const Node& n, std::int64_t bytes) const;
  template <Rules kRules>
  std::uint32_t take_free(const Request& r);
  template <Rules kRules>
  std::uint32_t take_front(FreeList& free, std::uint32_t n, std::int64_t bytes);
  // Whether more bytes are allocated than at any time since the peaks were reset.
  template <Rules kRules>
  bool hand_out(std::uint32_t n, std::int64_t requested);

  // allocator.cpp
  // kNoNode: out of memory.
  std::uint32_t make_room(const Request& r, Time at);
  std::int64_t round_to_division(std::int64_t bytes) const;
  Arena& arena(std::uint8_t stream, bool small) {
    const std::size_t index = 2U * stream + (small ? 1U : 0U);
    return index < arenas_made ? arenas[index] : make_arena(index);
  }
  Arena& make_arena(std::size_t index);
  Arena& arena_of(const Node& n) { return arenas[2U * n.stream + (n.small ? 1U : 0U)]; }
  std::uint32_t add_node();
  std::uint32_t make_segment(std::int64_t bytes, std::uint8_t stream, bool small, bool expandable);
  void insert_free(std::uint32_t n);
  void erase_free(std::uint32_t n);
  // Makes `n`, which is in no list, swallow neighbours in the same state.
  void merge_neighbours(std::uint32_t n);
  void merge(std::uint32_t n, std::uint32_t neighbour);
  // The `bytes` behind `n`'s first `keep` become a node of their own.
  std::uint32_t cut(std::uint32_t n, std::int64_t keep);
  std::uint32_t smallest_to_grow(const FreeList& free, std::uint32_t n) const;
  bool too_large(std::uint32_t n, const Request& r) const;
  std::uint32_t new_segment(const Request& r);
  std::uint32_t grown(const Request& r);
  void wait(std::uint32_t n, Time safe);
  void free_waiting(Time until);
  bool within_limit(std::int64_t more) {
    const std::int64_t sum = now.reserved + more;
    const bool within = options.limit.count() <= 0 || sum <= options.limit.count();
    (within ? limits.from : limits.below) =
        within ? std::max(limits.from, sum) : std::min(limits.below, sum);
    return within;
  }
  // Books `bytes` that the driver gave, or below zero: took back.
  void reserve(const Node& n, std::int64_t address, std::int64_t bytes, bool expandable);

  // expandable.cpp
  std::uint32_t find_expandable(const Request& r);
  std::uint32_t grow(const Request& r);
  bool map(std::uint32_t n, std::int64_t bytes);
  void unmap(std::uint32_t n);

  // reclaim.cpp
  void collect_garbage();
  bool release_oversized(const Request& r);
  void release_cached();
  void release_segment(std::uint32_t n);
};

// The only block of its segment.
inline bool unsplit(const Node& n) { return n.previous == kNoNode && n.next == kNoNode; }

}  // namespace stepcast::memory
