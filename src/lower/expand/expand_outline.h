// What one member of an expanded collective does: blocks of exchange steps that repeat, and peers
// as roles. Members at alike places have equal outlines, however long.
#pragma once

#include <cstdint>
#include <vector>

#include "stepcast/cluster/topology.h"
#include "stepcast/lower/expand.h"
#include "stepcast/program/program.h"

namespace stepcast::lower {

// Message sizes; a size's number is its price key on every path.
class Sizes {
 public:
  std::uint32_t id(std::int64_t bytes);
  const std::vector<std::int64_t>& all() const { return all_; }

 private:
  std::vector<std::int64_t> all_;
};

struct Peer {
  int member = 0;         // its place in the group
  std::uint32_t tag = 0;  // sender, receiver and tag name a channel
  bool sends = false;     // to the peer; else it receives
};

// A message of each of the steps `delay` to `delay + count - 1` of its block.
struct Exchange {
  std::uint32_t role = 0;
  std::uint32_t size = 0;  // price key
  std::uint32_t delay = 0;
  std::uint32_t count = 0;
  bool sends = false;
};

struct ExchangeBlock {
  static constexpr int kNothing = -1;
  int stream = 0;  // of the collective
  std::uint32_t steps = 0;
  std::vector<Exchange> moves;  // each step posts its moves together
  std::vector<int> after;       // blocks that have ended before the first step
  int paced_by = kNothing;      // step t starts behind step t of this block
};

struct Outline {
  std::vector<ExchangeBlock> blocks;
  std::vector<Peer> peers;  // by role

  std::uint32_t role(int member, std::uint32_t tag, bool sends) {
    peers.push_back({member, tag, sends});
    return static_cast<std::uint32_t>(peers.size() - 1);
  }
  void append_to(std::vector<std::int64_t>& key) const;
};

// By member of the group.
std::vector<Outline> outline_members(const ExpandedCollective& x, const cluster::Topology& topology,
                                     Sizes& sizes);

// The program of outlines that run side by side, each from its start. The first has the compute
// stream, on which the step ends when all have.
program::Program unroll(const std::vector<Outline>& outlines, const std::vector<Time>& starts,
                        std::size_t roles);

}  // namespace stepcast::lower
