// Blocks of a segment, and the free ones of one stream and pool, smallest first, equal sizes by
// address.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace stepcast::memory {

constexpr std::int64_t kMinBlock = 512;  // all sizes are rounded up to it

// Stands for none, and is one all the same, larger than all: what follows a link need not ask
// whether there is another end, to read its size and state, or to write a link into it that nothing
// reads.
constexpr std::uint32_t kNoNode = 0;

enum class NodeState : std::uint8_t { live, waiting, free, unmapped, unused };

// A stretch of a segment: a block, or addresses of an expandable segment without pages. Each has a
// cache line of its own: most calls of the allocator touch a few nodes far apart.
struct alignas(64) Node {
  std::int64_t address = 0;
  std::int64_t bytes = 0;
  std::int64_t requested = 0;
  std::int64_t freed_at = 0;         // searches of its pool by then; its age for garbage collection
  std::uint32_t previous = kNoNode;  // in address order, within the segment
  std::uint32_t next = kNoNode;
  std::uint32_t smaller = kNoNode;  // of its free list, within one class of sizes
  std::uint32_t larger = kNoNode;
  std::uint32_t segment = 0;
  std::uint16_t size_class = 0;  // of a free one, in its list
  std::uint8_t stream = 0;
  bool small = false;
  NodeState state = NodeState::unused;
};

inline Node no_node() {
  Node out;
  out.bytes = std::numeric_limits<std::int64_t>::max();
  return out;
}

// A doubly linked list for each class of sizes, which are a sixteenth of a power of two wide: a
// search looks at one class and then takes the first block of the next that is not empty, and a
// block leaves without a search. It stands in the list by its size and address, so it has to leave
// before either changes. `nodes` are all blocks of the allocator. A class rarely holds blocks of
// several sizes. Where it holds many of one, passes free them one beside the other: the place of a
// block is searched from where the last came.
class FreeList {
 public:
  FreeList() {
    first_.fill(kNoNode);
    near_.fill(kNoNode);
  }

  // The first block of at least `bytes`; kNoNode: there is none.
  [[gnu::always_inline]] std::uint32_t at_least(const Node* nodes, std::int64_t bytes) const {
    const std::size_t of = class_of(bytes);
    std::uint32_t n = first_[of];
    while (nodes[n].bytes < bytes) {
      n = nodes[n].larger;
    }
    return n != kNoNode ? n : first_from(of + 1);
  }
  // The block behind `n` in the order of the list; kNoNode: `n` is the last.
  std::uint32_t behind(const Node* nodes, std::uint32_t n) const {
    const std::uint32_t larger = nodes[n].larger;
    return larger != kNoNode ? larger : first_from(nodes[n].size_class + std::size_t{1});
  }

  std::vector<std::uint32_t> in_order(const Node* nodes) const {
    std::vector<std::uint32_t> out;
    for (std::uint32_t n = first_from(0); n != kNoNode; n = behind(nodes, n)) {
      out.push_back(n);
    }
    return out;
  }

  [[gnu::always_inline]] void insert(Node* nodes, std::uint32_t n) {
    Node& node = nodes[n];
    const std::size_t of = class_of(node.bytes);
    node.size_class = static_cast<std::uint16_t>(of);
    std::uint32_t larger = near_[of];
    near_[of] = n;
    std::uint32_t smaller = larger == kNoNode ? kNoNode : nodes[larger].smaller;
    while (before(nodes[larger], node)) {
      smaller = larger;
      larger = nodes[larger].larger;
    }
    while (smaller != kNoNode && before(node, nodes[smaller])) {
      larger = smaller;
      smaller = nodes[smaller].smaller;
    }
    node.smaller = smaller;
    node.larger = larger;
    nodes[larger].smaller = n;
    nodes[smaller].larger = n;
    first_[of] = smaller == kNoNode ? n : first_[of];
    used_[of / 64] |= std::uint64_t{1} << (of % 64);
  }

  // Most often it is alone; where it is not, is not foreseen, so nothing asks.
  [[gnu::always_inline]] void erase(Node* nodes, std::uint32_t n) {
    const std::uint32_t smaller = nodes[n].smaller;
    const std::uint32_t larger = nodes[n].larger;
    const std::size_t of = nodes[n].size_class;
    nodes[larger].smaller = smaller;
    nodes[smaller].larger = larger;
    first_[of] = smaller == kNoNode ? larger : first_[of];
    const std::uint32_t beside = smaller != kNoNode ? smaller : larger;
    near_[of] = near_[of] == n ? beside : near_[of];
    used_[of / 64] &= ~(std::uint64_t{beside == kNoNode ? 1U : 0U} << (of % 64));
  }

  // A block loses or gains at either end, and may keep its place.
  [[gnu::always_inline]] void resize(Node* nodes, std::uint32_t n, std::int64_t address,
                                     std::int64_t bytes) {
    Node& node = nodes[n];
    const auto change = [&] {
      node.address = address;
      node.bytes = bytes;
    };
    if (class_of(bytes) == node.size_class &&
        (node.smaller == kNoNode || nodes[node.smaller].bytes < bytes) &&
        (node.larger == kNoNode || nodes[node.larger].bytes > bytes)) {
      change();
      return;
    }
    erase(nodes, n);
    change();
    insert(nodes, n);
  }

 private:
  static constexpr int kParts = 4;  // log2 of the classes between two powers of two
  // Of all sizes: 2^63 bytes are 2^54 units of kMinBlock, and a size that rounds up to them is one.
  static constexpr std::size_t kClasses = 56 << kParts;
  static_assert(kClasses % 64 == 0);

  // The exponent of the size as a floating-point number, and the first bits behind its point.
  static std::size_t class_of(std::int64_t bytes) {
    constexpr int kMantissa = std::numeric_limits<double>::digits - 1;
    constexpr auto key = [](std::int64_t size) {
      return std::bit_cast<std::uint64_t>(static_cast<double>(size)) >> (kMantissa - kParts);
    };
    constexpr std::uint64_t kFirst = key(kMinBlock);
    return key(bytes) - kFirst;
  }
  static bool before(const Node& a, const Node& b) {
    return a.bytes < b.bytes || (a.bytes == b.bytes && a.address < b.address);
  }
  // The first block of the classes from `of` on.
  std::uint32_t first_from(std::size_t of) const {
    std::size_t word = of / 64;
    if (word >= used_.size()) {
      return kNoNode;
    }
    std::uint64_t bits = used_[word] & (~std::uint64_t{0} << (of % 64));
    while (bits == 0) {
      if (++word == used_.size()) {
        return kNoNode;
      }
      bits = used_[word];
    }
    return first_[word * 64 + static_cast<std::size_t>(std::countr_zero(bits))];
  }

  std::array<std::uint32_t, kClasses> first_;
  std::array<std::uint32_t, kClasses> near_;         // the block that came last, or one beside it
  std::array<std::uint64_t, kClasses / 64> used_{};  // a bit for each class that is not empty
};

}  // namespace stepcast::memory
