// What the allocator does when memory is short: old cached blocks are given back past a threshold;
// when the driver refuses a segment, cached blocks go, first one that is large enough, then all.
#include <algorithm>
#include <limits>

#include "allocator_calls.h"
#include "allocator_state.h"

namespace stepcast::memory {

using State = CachingAllocator::State;

// Gives a segment back whose only block `n` is free.
void State::release_segment(std::uint32_t n) {
  erase_free(n);
  const std::uint32_t s = nodes[n].segment;
  reserve(nodes[n], segments[s].address, -segments[s].bytes, false);
  segments[s].first = kNoNode;
  unused_segments.push_back(s);
  drop_node(n);
}

// Past the threshold: cached large segments that went unused for longer than the mean, until enough
// is reclaimed or none is left (garbage_collect_cached_blocks).
void State::collect_garbage() {
  const auto threshold =
      static_cast<std::int64_t>(options.gc_threshold * static_cast<double>(options.limit.count()));
  if (now.reserved <= threshold) {
    return;
  }
  const std::int64_t target = now.reserved - threshold;
  struct Cached {
    std::uint32_t node = 0;
    std::int64_t age = 0;
  };
  std::vector<Cached> cached;
  std::int64_t ages = 0;
  for (std::size_t a = 0; a < arenas.size(); a += 2) {
    for (const std::uint32_t i : arenas[a].free.in_order(nodes.data())) {
      const Node& n = nodes[i];
      if (unsplit(n) && !segments[n.segment].expandable) {
        cached.push_back({i, searches[0] - n.freed_at});
        ages += cached.back().age;
      }
    }
  }
  std::int64_t reclaimed = 0;
  bool any = true;
  while (reclaimed < target && any && !cached.empty()) {
    const double mean = static_cast<double>(ages) / static_cast<double>(cached.size());
    any = false;
    std::vector<Cached> left;
    for (const Cached& c : cached) {
      if (static_cast<double>(c.age) >= mean) {
        any = true;
        reclaimed += nodes[c.node].bytes;
        ages -= c.age;
        release_segment(c.node);
      } else {
        left.push_back(c);
      }
    }
    cached = std::move(left);
  }
}

// With max_split_size: gives back an oversized block that is large enough, or several, largest
// first (release_available_cached_blocks). Whether enough was given back.
bool State::release_oversized(const Request& r) {
  if (options.max_split == 0 || options.expandable_segments) {
    return false;
  }
  const std::int64_t least = std::max(r.bytes, options.max_split);
  const FreeList& free = arena(r.stream, r.small).free;
  if (const std::uint32_t n = free.at_least(nodes.data(), least); n != kNoNode) {
    if (unsplit(nodes[n])) {
      release_segment(n);
      return true;
    }
    return false;
  }
  std::int64_t released = 0;
  const std::vector<std::uint32_t> all = free.in_order(nodes.data());
  for (std::size_t i = all.size(); i-- > 0 && released < least;) {
    const Node& node = nodes[all[i]];
    if (node.bytes < options.max_split) {
      break;
    }
    if (unsplit(node)) {
      released += node.bytes;
      release_segment(all[i]);
    }
  }
  return released >= least;
}

// Waits for the GPU, then gives back every segment and page without a live block.
void State::release_cached() {
  free_waiting(Time::max());
  for (Arena& a : arenas) {
    for (const std::uint32_t n : a.free.in_order(nodes.data())) {
      if (segments[nodes[n].segment].expandable) {
        unmap(n);
      } else if (unsplit(nodes[n])) {
        release_segment(n);
      }
    }
  }
}

}  // namespace stepcast::memory
