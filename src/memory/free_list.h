// Free blocks of one stream and pool, smallest first, equal sizes by address. Flat: a list is short
// once neighbours have coalesced. An entry is one word, so that searches and moves touch little:
// the size, and the node of the block. Addresses only order equal sizes: their owner is asked for
// them, by a function of the node.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace stepcast::memory {

constexpr std::int64_t kMinBlock = 512;  // all sizes are rounded up to it

class FreeList {
 public:
  // Nodes are below this.
  static constexpr std::uint32_t kMaxNodes = 1U << 28;

  std::size_t size() const { return entries_.size(); }
  std::uint32_t node(std::size_t i) const {
    return static_cast<std::uint32_t>(entries_[i] % kMaxNodes);
  }

  // The first block of at least `bytes`. Blocks beyond 32 TiB are not told from each other: there
  // it is the first of them.
  std::size_t lower_bound(std::int64_t bytes) const {
    return first_from(size_part(bytes), 0, entries_.size());
  }
  // Where a block stands, or would stand.
  template <class AddressOf>
  std::size_t find(std::int64_t bytes, std::int64_t address, const AddressOf& address_of) const {
    return place(size_part(bytes), address, 0, entries_.size(), address_of);
  }

  template <class AddressOf>
  void insert(std::int64_t bytes, std::uint32_t node, const AddressOf& address_of) {
    const std::size_t to = find(bytes, address_of(node), address_of);
    entries_.insert(at(to), size_part(bytes) + node);
  }
  void erase_at(std::size_t i) { entries_.erase(at(i)); }
  // Entry `i` becomes that of another block, in its place.
  template <class AddressOf>
  void replace(std::size_t i, std::int64_t bytes, std::uint32_t node, const AddressOf& address_of) {
    const std::uint64_t part = size_part(bytes);
    const std::uint64_t before = entries_[i] - entries_[i] % kMaxNodes;
    if (part < before) {
      const std::size_t to = place(part, address_of(node), 0, i, address_of);
      std::copy_backward(at(to), at(i), at(i + 1));
      entries_[to] = part + node;
    } else if (part > before) {
      const std::size_t to = place(part, address_of(node), i + 1, entries_.size(), address_of);
      std::copy(at(i + 1), at(to), at(i));
      entries_[to - 1] = part + node;
    } else {
      erase_at(i);
      insert(bytes, node, address_of);
    }
  }

 private:
  static constexpr std::int64_t kLargest = (std::int64_t{1} << 35) - 1;  // in units of kMinBlock

  static std::uint64_t size_part(std::int64_t bytes) {
    return static_cast<std::uint64_t>(std::min((bytes + kMinBlock - 1) / kMinBlock, kLargest)) *
           kMaxNodes;
  }
  std::vector<std::uint64_t>::iterator at(std::size_t i) {
    return entries_.begin() + static_cast<std::ptrdiff_t>(i);
  }
  // The first of the entries `from` to `to` that is not below `bound`.
  std::size_t first_from(std::uint64_t bound, std::size_t from, std::size_t to) const {
    const std::uint64_t* entries = entries_.data();
    for (std::size_t count = to - from; count > 0;) {
      const std::size_t half = count / 2;
      if (entries[from + half] < bound) {
        from += half + 1;
        count -= half + 1;
      } else {
        count = half;
      }
    }
    return from;
  }
  template <class AddressOf>
  std::size_t place(std::uint64_t part, std::int64_t address, std::size_t from, std::size_t to,
                    const AddressOf& address_of) const {
    std::size_t first = first_from(part, from, to);
    const auto lower = [&](std::size_t i) {
      return entries_[i] - part < kMaxNodes && address_of(node(i)) < address;
    };
    constexpr std::size_t kStepwise = 4;  // equal blocks are few as a rule
    for (std::size_t k = 0; k < kStepwise; ++k, ++first) {
      if (first == to || !lower(first)) {
        return first;
      }
    }
    for (std::size_t count = to - first; count > 0;) {
      const std::size_t half = count / 2;
      if (lower(first + half)) {
        first += half + 1;
        count -= half + 1;
      } else {
        count = half;
      }
    }
    return first;
  }

  std::vector<std::uint64_t> entries_;
};

}  // namespace stepcast::memory
