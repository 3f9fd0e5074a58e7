// Requests and releases, as far as blocks at hand serve them: all but a few calls of a replay. They
// are compiled into the loop that plays a tape, of which they are nearly all.
#pragma once

#include <algorithm>
#include <cstdint>

#include "allocator_state.h"

namespace stepcast::memory {

// ---------------------------------------------------------------- sizes
[[gnu::always_inline]] inline std::int64_t CachingAllocator::State::round(
    std::int64_t bytes) const {
  const std::int64_t divisions = options.round_up_divisions;
  if (divisions > 1 && bytes > kMinBlock * divisions) {
    return round_to_division(bytes);
  }
  return bytes < kMinBlock ? kMinBlock : (bytes + kMinBlock - 1) / kMinBlock * kMinBlock;
}

template <Rules kRules>
[[gnu::always_inline]] inline bool CachingAllocator::State::splits(const Node& n,
                                                                   std::int64_t bytes) const {
  const std::int64_t remaining = n.bytes - bytes;
  if constexpr (kRules == Rules::usual) {
    return remaining > (n.small ? kMinBlock - 1 : kSmallSize);
  }
  if (n.small || options.expandable_segments) {
    return remaining >= kMinBlock;
  }
  return remaining > kSmallSize && (options.max_split == 0 || bytes < options.max_split);
}

// ---------------------------------------------------------------- nodes
[[gnu::always_inline]] inline std::uint32_t CachingAllocator::State::make_node() {
  const std::uint32_t n = unused;
  if (n == kNoNode) {
    return add_node();
  }
  unused = nodes[n].next;
  return n;
}

[[gnu::always_inline]] inline void CachingAllocator::State::drop_node(std::uint32_t n) {
  nodes[n].state = NodeState::unused;
  nodes[n].next = unused;
  unused = n;
}

// `n` takes the addresses of its neighbour, which is in no list any more.
[[gnu::always_inline]] inline void CachingAllocator::State::absorb_next(std::uint32_t n) {
  Node* const all = nodes.data();
  const std::uint32_t neighbour = all[n].next;
  all[n].bytes += all[neighbour].bytes;
  const std::uint32_t next = all[neighbour].next;
  all[n].next = next;
  all[next].previous = n;
  drop_node(neighbour);
}
[[gnu::always_inline]] inline void CachingAllocator::State::absorb_previous(std::uint32_t n) {
  Node* const all = nodes.data();
  const std::uint32_t neighbour = all[n].previous;
  all[n].bytes += all[neighbour].bytes;
  all[n].address = all[neighbour].address;
  const std::uint32_t previous = all[neighbour].previous;
  all[n].previous = previous;
  if (previous != kNoNode) {
    all[previous].next = n;
  } else {
    segments[all[n].segment].first = n;
  }
  drop_node(neighbour);
}

// A block that nobody uses any more joins its free neighbours. It is in no list yet. A neighbour
// that is in a list already grows by it, and most often keeps its place there.
template <Rules kRules>
[[gnu::always_inline]] inline void CachingAllocator::State::make_free(std::uint32_t n) {
  Node* const all = nodes.data();
  Node& node = all[n];
  FreeList& free = arena_of(node).free;
  const auto freed = [&](Node& of) {
    if constexpr (kRules == Rules::all) {
      of.freed_at = searches[node.small ? 1 : 0];
    }
  };
  if constexpr (kRules == Rules::all) {
    now.active -= node.bytes;
  }
  const std::uint32_t previous = node.previous;
  const std::uint32_t next = node.next;
  const bool joins_next = all[next].state == NodeState::free;
  if (all[previous].state == NodeState::free) {
    std::int64_t bytes = all[previous].bytes + node.bytes;
    std::uint32_t behind = next;
    if (joins_next) {
      bytes += all[next].bytes;
      behind = all[next].next;
      free.erase(all, next);
      drop_node(next);
    }
    all[previous].next = behind;
    all[behind].previous = previous;
    drop_node(n);
    freed(all[previous]);
    free.resize(all, previous, all[previous].address, bytes);
  } else if (joins_next) {
    all[next].previous = previous;
    if (previous != kNoNode) {
      all[previous].next = next;
    } else {
      segments[node.segment].first = next;
    }
    const std::int64_t address = node.address;
    const std::int64_t bytes = node.bytes + all[next].bytes;
    drop_node(n);
    freed(all[next]);
    free.resize(all, next, address, bytes);
  } else {
    node.state = NodeState::free;
    freed(node);
    free.insert(all, n);
  }
}

// ---------------------------------------------------------------- requests
// Best fit: the smallest free block of the stream that is large enough, or as much of it as is
// asked for; kNoNode: there is none.
template <Rules kRules>
[[gnu::always_inline]] inline std::uint32_t CachingAllocator::State::take_free(const Request& r) {
  FreeList& free = arena(r.stream, r.small).free;
  std::uint32_t n = free.at_least(nodes.data(), r.bytes);
  if constexpr (kRules == Rules::all) {
    ++searches[r.small ? 1 : 0];
  }
  if (n == kNoNode) {
    return kNoNode;
  }
  if constexpr (kRules == Rules::all) {
    if (options.expandable_segments) {
      n = smallest_to_grow(free, n);
    }
    if (options.max_split != 0 && too_large(n, r)) {
      return kNoNode;
    }
  }
  if (splits<kRules>(nodes[n], r.bytes)) {
    return take_front<kRules>(free, n, r.bytes);
  }
  free.erase(nodes.data(), n);
  return n;
}

// The first `bytes` of a free block, which stays free without them.
template <Rules kRules>
[[gnu::always_inline]] inline std::uint32_t CachingAllocator::State::take_front(
    FreeList& free, std::uint32_t n, std::int64_t bytes) {
  const std::uint32_t front = make_node();
  Node* const all = nodes.data();
  Node& node = all[n];
  Node& taken = all[front];
  taken.address = node.address;
  taken.bytes = bytes;
  taken.previous = node.previous;
  taken.next = n;
  taken.segment = node.segment;
  taken.stream = node.stream;
  taken.small = node.small;
  if (node.previous != kNoNode) {
    all[node.previous].next = front;
  } else {
    segments[node.segment].first = front;
  }
  node.previous = front;
  if constexpr (kRules == Rules::all) {
    node.freed_at = searches[node.small ? 1 : 0];
  }
  free.resize(all, n, node.address + bytes, node.bytes - bytes);
  return front;
}

template <Rules kRules>
[[gnu::always_inline]] inline bool CachingAllocator::State::hand_out(std::uint32_t n,
                                                                     std::int64_t requested) {
  Node& node = nodes[n];
  node.state = NodeState::live;
  node.requested = requested;
  const auto raise = [](std::int64_t& most, std::int64_t bytes) {
    const bool rises = bytes > most;
    if (rises) {
      most = bytes;
    }
    return rises;
  };
  raise(peak.requested, now.requested += requested);
  if constexpr (kRules == Rules::all) {
    raise(peak.active, now.active += node.bytes);
  }
  return raise(peak.allocated, now.allocated += node.bytes);
}

template <Rules kRules>
[[gnu::always_inline]] inline CachingAllocator::State::Request CachingAllocator::State::begin(
    std::int64_t bytes, std::uint8_t stream, Time at) {
  if constexpr (kRules == Rules::usual) {
    const std::int64_t rounded = (std::max(bytes, kMinBlock) + kMinBlock - 1) & -kMinBlock;
    return {rounded, stream, rounded <= kSmallSize};
  }
  if (!waiting.empty()) {
    free_waiting(at);
  }
  const std::int64_t rounded = round(bytes);
  return {rounded, stream, rounded <= kSmallSize};
}

template <Rules kRules>
[[gnu::always_inline]] inline void CachingAllocator::State::give_back(std::uint32_t n, Time at,
                                                                      Time safe) {
  const Node& node = nodes[n];
  now.requested -= node.requested;
  now.allocated -= node.bytes;
  if (kRules == Rules::all && safe > at) {
    wait(n, safe);
  } else {
    make_free<kRules>(n);
  }
}

inline bool CachingAllocator::State::meets_usual_rules() const {
  return !options.expandable_segments && options.gc_threshold <= 0 && options.max_split == 0 &&
         options.round_up_divisions <= 1 && waiting.empty();
}

inline void CachingAllocator::State::note_active() {
  now.active = now.allocated;
  peak.active = std::max(peak.active, peak.allocated);
}

}  // namespace stepcast::memory
