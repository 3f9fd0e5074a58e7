#include "stepcast/memory/allocator.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <utility>

#include "allocator_calls.h"
#include "allocator_state.h"

namespace stepcast::memory {

using State = CachingAllocator::State;

namespace {

bool later(const State::Waiting& a, const State::Waiting& b) {
  return a.safe != b.safe ? a.safe > b.safe : a.node > b.node;
}

std::int64_t up_to(std::int64_t bytes, std::int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

// ---------------------------------------------------------------- sizes
// To the next of `round_up_divisions` equal parts between two powers of two.
std::int64_t State::round_to_division(std::int64_t bytes) const {
  const auto floor = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(bytes)));
  if (floor == bytes) {
    return bytes;
  }
  const auto divisions = static_cast<std::uint64_t>(options.round_up_divisions);
  const std::int64_t part = floor / static_cast<std::int64_t>(std::bit_floor(divisions));
  return part == 0 ? 2 * floor : up_to(bytes, part);
}

// ---------------------------------------------------------------- nodes and segments
Arena& State::make_arena(std::size_t index) {
  arenas_made = index / 2 * 2 + 2;
  arenas.resize(arenas_made);
  return arenas[index];
}

std::uint32_t State::add_node() {
  if (nodes.size() == std::numeric_limits<std::uint32_t>::max()) {
    throw std::length_error("more blocks than the allocator's model holds");
  }
  nodes.emplace_back();
  return static_cast<std::uint32_t>(nodes.size() - 1);
}

std::uint32_t State::make_segment(std::int64_t bytes, std::uint8_t stream, bool small,
                                  bool expandable) {
  std::uint32_t s = 0;
  if (unused_segments.empty()) {
    segments.emplace_back();
    s = static_cast<std::uint32_t>(segments.size() - 1);
  } else {
    s = unused_segments.back();
    unused_segments.pop_back();
  }
  const std::uint32_t n = make_node();
  const std::int64_t room = up_to(bytes, kRoundLarge);
  // Free blocks are told apart by size, then by address (free_list.h).
  const bool rises = options.oldest_segment_first;
  const std::int64_t address = rises ? next_address : next_address - room;
  next_address = rises ? address + room : address;
  segments[s] = {address, expandable ? 0 : bytes, n, stream, small, expandable};
  Node node;
  node.address = address;
  node.bytes = bytes;
  node.segment = s;
  node.stream = stream;
  node.small = small;
  nodes[n] = node;
  return n;
}

void State::insert_free(std::uint32_t n) {
  Node& node = nodes[n];
  node.state = NodeState::free;
  node.freed_at = searches[node.small ? 1 : 0];
  arena_of(node).free.insert(nodes.data(), n);
}

void State::erase_free(std::uint32_t n) { arena_of(nodes[n]).free.erase(nodes.data(), n); }

void State::merge(std::uint32_t n, std::uint32_t neighbour) {
  if (neighbour == kNoNode || nodes[neighbour].state != nodes[n].state) {
    return;
  }
  if (nodes[neighbour].state == NodeState::free) {
    erase_free(neighbour);
  } else {
    auto& list = arena_of(nodes[neighbour]).unmapped;
    list.erase(std::find(list.begin(), list.end(), neighbour));
  }
  nodes[n].next == neighbour ? absorb_next(n) : absorb_previous(n);
}

void State::merge_neighbours(std::uint32_t n) {
  merge(n, nodes[n].previous);
  merge(n, nodes[n].next);
}

std::uint32_t State::cut(std::uint32_t n, std::int64_t keep) {
  const std::uint32_t rest = make_node();
  Node& node = nodes[n];
  Node& behind = nodes[rest];
  behind = node;
  behind.address += keep;
  behind.bytes -= keep;
  behind.previous = n;
  node.bytes = keep;
  node.next = rest;
  if (behind.next != kNoNode) {
    nodes[behind.next].previous = rest;
  }
  return rest;
}

// ---------------------------------------------------------------- requests
// A block before addresses without pages counts as large as it can grow: others are taken first.
std::uint32_t State::smallest_to_grow(const FreeList& free, std::uint32_t n) const {
  const auto growth = [&](std::uint32_t of) {
    const std::uint32_t next = nodes[of].next;
    return next != kNoNode && nodes[next].state == NodeState::unmapped ? nodes[next].bytes : 0;
  };
  // Nothing behind a block that does not grow is smaller.
  for (std::int64_t more = growth(n); more > 0;) {
    const std::uint32_t behind = free.behind(nodes.data(), n);
    if (behind == kNoNode) {
      break;
    }
    const std::int64_t behind_more = growth(behind);
    if (nodes[behind].bytes + behind_more >= nodes[n].bytes + more) {
      break;
    }
    n = behind;
    more = behind_more;
  }
  return n;
}

// Oversized blocks are for oversized requests, and those tolerate little waste.
bool State::too_large(std::uint32_t n, const Request& r) const {
  if (options.max_split == 0) {
    return false;
  }
  const std::int64_t found = nodes[n].bytes;
  const bool oversized = r.bytes >= options.max_split;
  return oversized ? found >= r.bytes + kLargeBuffer : found >= options.max_split;
}

// A segment from the driver; kNoNode: over the limit.
std::uint32_t State::new_segment(const Request& r) {
  if (options.expandable_segments) {
    return grow(r);
  }
  const std::int64_t bytes = r.small                    ? kSmallBuffer
                             : r.bytes < kMinLargeAlloc ? kLargeBuffer
                                                        : up_to(r.bytes, kRoundLarge);
  if (!within_limit(bytes)) {
    return kNoNode;
  }
  const std::uint32_t n = make_segment(bytes, r.stream, r.small, false);
  reserve(nodes[n], nodes[n].address, bytes, false);
  return n;
}

// A block of a new segment, without what is split off; kNoNode: over the limit.
std::uint32_t State::grown(const Request& r) {
  const std::uint32_t n = new_segment(r);
  if (n != kNoNode && splits<Rules::all>(nodes[n], r.bytes)) {
    insert_free(cut(n, r.bytes));
  }
  return n;
}

void State::reserve(const Node& n, std::int64_t address, std::int64_t bytes, bool expandable) {
  now.reserved += bytes;
  peak.reserved = std::max(peak.reserved, now.reserved);
  events.push_back({clock, address, std::abs(bytes), n.stream, bytes > 0, expandable});
}

void State::wait(std::uint32_t n, Time safe) {
  nodes[n].state = NodeState::waiting;
  waiting.push_back({safe, n});
  std::push_heap(waiting.begin(), waiting.end(), later);
}

void State::free_waiting(Time until) {
  while (!waiting.empty() && waiting.front().safe <= until) {
    const std::uint32_t n = waiting.front().node;
    std::pop_heap(waiting.begin(), waiting.end(), later);
    waiting.pop_back();
    make_free<Rules::all>(n);
  }
}

// A block where no free one is large enough.
std::uint32_t State::make_room(const Request& r, Time at) {
  clock = at;
  if (options.gc_threshold > 0 && options.limit.count() > 0) {
    collect_garbage();
  }
  std::uint32_t n = grown(r);
  if (n == kNoNode && release_oversized(r)) {
    n = grown(r);
  }
  if (n == kNoNode) {
    release_cached();
    ++retries;
    n = grown(r);
  }
  return n;
}

// ---------------------------------------------------------------- interface
CachingAllocator::CachingAllocator(AllocatorOptions options) : state_(std::make_unique<State>()) {
  state_->options = options;
}
CachingAllocator::~CachingAllocator() = default;
CachingAllocator::CachingAllocator(CachingAllocator&&) noexcept = default;
CachingAllocator& CachingAllocator::operator=(CachingAllocator&&) noexcept = default;
CachingAllocator::CachingAllocator(const CachingAllocator& other)
    : state_(std::make_unique<State>(*other.state_)) {}

void CachingAllocator::set_limit(Bytes limit) { state_->options.limit = limit; }

std::optional<BlockId> CachingAllocator::allocate(std::int64_t bytes, std::uint8_t stream,
                                                  Time now) {
  if (bytes < 0) {
    throw std::invalid_argument("a request below zero bytes");
  }
  State& s = *state_;
  const State::Request r = s.begin<Rules::all>(bytes, stream, now);
  std::uint32_t n = s.take_free<Rules::all>(r);
  if (n == kNoNode) {
    n = s.make_room(r, now);
  }
  if (n == kNoNode) {
    return std::nullopt;
  }
  s.hand_out<Rules::all>(n, bytes);
  return BlockId::at(n);
}

void CachingAllocator::release(BlockId block, Time now, Time safe) {
  if (block >= state_->nodes.size() || state_->nodes[block].state != NodeState::live) {
    throw std::invalid_argument("a block is released that is not live");
  }
  state_->give_back<Rules::all>(block, now, safe);
}

void CachingAllocator::empty_cache(Time now) {
  state_->clock = now;
  state_->release_cached();
}

const CachingAllocator::LimitRange& CachingAllocator::limits() const { return state_->limits; }
const AllocatorStats& CachingAllocator::now() const { return state_->now; }
const AllocatorStats& CachingAllocator::peak() const { return state_->peak; }
void CachingAllocator::reset_peak() { state_->peak = state_->now; }
int CachingAllocator::retries() const { return state_->retries; }
std::int64_t CachingAllocator::address(BlockId block) const { return state_->nodes[block].address; }
std::int64_t CachingAllocator::size(BlockId block) const { return state_->nodes[block].bytes; }
const std::vector<CachingAllocator::SegmentEvent>& CachingAllocator::segment_events() const {
  return state_->events;
}

std::vector<CachingAllocator::Segment> CachingAllocator::segments() const {
  const State& s = *state_;
  std::vector<Segment> out;
  for (const SegmentRecord& record : s.segments) {
    if (record.first == kNoNode) {
      continue;
    }
    Segment segment{record.address, record.bytes,      record.stream,
                    record.small,   record.expandable, {}};
    for (std::uint32_t n = record.first; n != kNoNode; n = s.nodes[n].next) {
      const Node& node = s.nodes[n];
      if (node.state == NodeState::unmapped) {
        continue;
      }
      Block block;
      block.offset = node.address - record.address;
      block.bytes = node.bytes;
      if (node.state != NodeState::free) {
        block.requested = node.requested;
        block.id = BlockId::at(n);
        block.state = node.state == NodeState::live ? Block::State::live : Block::State::waiting;
      }
      segment.blocks.push_back(block);
    }
    out.push_back(std::move(segment));
  }
  // Addresses only grow: this is the order of creation.
  std::sort(out.begin(), out.end(),
            [](const Segment& a, const Segment& b) { return a.address < b.address; });
  return out;
}

}  // namespace stepcast::memory
