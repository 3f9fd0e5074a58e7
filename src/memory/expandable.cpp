// Expandable segments: a stream's pool is one stretch of addresses, to which pages are mapped where
// requests need them.
#include <algorithm>

#include "allocator_state.h"

namespace stepcast::memory {

using State = CachingAllocator::State;

namespace {

// Addresses of a segment. PyTorch takes 9/8 of the GPU's memory; here they never run out.
constexpr std::int64_t kSpace = std::int64_t{1} << 46;

std::int64_t page(bool small) { return small ? kSmallBuffer : kLargeBuffer; }

}  // namespace

// The lowest stretch of free and unmapped nodes that holds the request; a new segment when there is
// none. It is the first node of the stretch: one that is free is followed by an unmapped one.
std::uint32_t State::find_expandable(const Request& r) {
  const auto usable = [&](std::uint32_t n) {
    return n != kNoNode &&
           (nodes[n].state == NodeState::free || nodes[n].state == NodeState::unmapped);
  };
  for (const std::uint32_t u : arena(r.stream, r.small).unmapped) {
    const std::uint32_t first = usable(nodes[u].previous) ? nodes[u].previous : u;
    std::int64_t bytes = 0;
    for (std::uint32_t n = first; bytes < r.bytes && usable(n); n = nodes[n].next) {
      bytes += nodes[n].bytes;
    }
    if (bytes >= r.bytes) {
      return first;
    }
  }
  const std::uint32_t n = make_segment(
      std::max(kSpace, (r.bytes / kLargeBuffer + 1) * kLargeBuffer), r.stream, r.small, true);
  nodes[n].state = NodeState::unmapped;
  arena(r.stream, r.small).unmapped.push_back(n);
  return n;
}

// Maps pages to the first `bytes` of an unmapped node and makes it free. False: over the limit.
bool State::map(std::uint32_t n, std::int64_t bytes) {
  const std::int64_t unit = page(nodes[n].small);
  const std::int64_t mapped = (bytes + unit - 1) / unit * unit;
  if (!within_limit(mapped)) {
    return false;
  }
  auto& list = arena_of(nodes[n]).unmapped;
  const auto at = std::find(list.begin(), list.end(), n);
  if (mapped < nodes[n].bytes) {
    const std::uint32_t rest = cut(n, mapped);
    *at = rest;
  } else {
    list.erase(at);
  }
  segments[nodes[n].segment].bytes += mapped;
  reserve(nodes[n], nodes[n].address, mapped, true);
  nodes[n].state = NodeState::free;
  merge_neighbours(n);
  insert_free(n);
  return true;
}

// A node of at least the request's size, in no list. Pages that were mapped before the limit was
// reached stay cached.
std::uint32_t State::grow(const Request& r) {
  std::uint32_t n = find_expandable(r);
  if (nodes[n].state == NodeState::unmapped && !map(n, std::min(nodes[n].bytes, r.bytes))) {
    return kNoNode;
  }
  while (nodes[n].bytes < r.bytes) {
    const std::uint32_t behind = nodes[n].next;  // swallows `n` once it has pages
    const std::int64_t missing = r.bytes - nodes[n].bytes;
    if (!map(behind, std::min(missing, nodes[behind].bytes))) {
      return kNoNode;
    }
    n = behind;
  }
  erase_free(n);
  return n;
}

// Takes the whole pages of a free block away.
void State::unmap(std::uint32_t n) {
  const std::int64_t unit = page(nodes[n].small);
  const std::int64_t base = segments[nodes[n].segment].address;
  const std::int64_t begin = (nodes[n].address - base + unit - 1) / unit * unit;
  const std::int64_t end = (nodes[n].address - base + nodes[n].bytes) / unit * unit;
  if (begin >= end) {
    return;
  }
  erase_free(n);
  if (const std::int64_t before = begin - (nodes[n].address - base); before > 0) {
    const std::uint32_t rest = cut(n, before);
    insert_free(n);
    n = rest;
  }
  if (nodes[n].bytes > end - begin) {
    insert_free(cut(n, end - begin));
  }
  segments[nodes[n].segment].bytes -= end - begin;
  reserve(nodes[n], nodes[n].address, begin - end, true);
  nodes[n].state = NodeState::unmapped;
  merge_neighbours(n);
  auto& list = arena_of(nodes[n]).unmapped;
  const auto at = std::lower_bound(
      list.begin(), list.end(), n,
      [&](std::uint32_t a, std::uint32_t b) { return nodes[a].address < nodes[b].address; });
  list.insert(at, n);
}

}  // namespace stepcast::memory
