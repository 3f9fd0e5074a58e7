// Free blocks of one stream and pool, smallest first, equal sizes by address. Flat: a list is short
// once neighbours have coalesced, and a search touches the sizes alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace stepcast::memory {

class FreeList {
 public:
  struct Key {
    std::int64_t bytes = 0;
    std::int64_t address = 0;
  };

  std::size_t size() const { return bytes_.size(); }
  std::int64_t bytes(std::size_t i) const { return bytes_[i]; }
  std::uint32_t node(std::size_t i) const { return entries_[i].node; }

  // The first block that is not below `key`.
  std::size_t lower_bound(Key key) const {
    const std::int64_t* base = bytes_.data();
    std::size_t first = 0;
    std::size_t count = bytes_.size();
    while (count > 0) {
      const std::size_t half = count / 2;
      const std::size_t middle = first + half;
      const bool below = base[middle] < key.bytes ||
                         (base[middle] == key.bytes && entries_[middle].address < key.address);
      first = below ? middle + 1 : first;
      count = below ? count - half - 1 : half;
    }
    return first;
  }

  void insert(Key key, std::uint32_t node) {
    const auto at = static_cast<std::ptrdiff_t>(lower_bound(key));
    bytes_.insert(bytes_.begin() + at, key.bytes);
    entries_.insert(entries_.begin() + at, {key.address, node});
  }
  void erase_at(std::size_t i) {
    bytes_.erase(bytes_.begin() + static_cast<std::ptrdiff_t>(i));
    entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  void erase(Key key) { erase_at(lower_bound(key)); }

 private:
  struct Entry {
    std::int64_t address = 0;
    std::uint32_t node = 0;
  };
  std::vector<std::int64_t> bytes_;
  std::vector<Entry> entries_;
};

}  // namespace stepcast::memory
