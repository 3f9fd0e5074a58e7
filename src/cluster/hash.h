// ECMP: the share of a rate that is left after hash collisions.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "stepcast/cluster/topology.h"

namespace stepcast::cluster {

// `flows` flows are thrown onto `links` equal links; the first `own` of them are the group's.
// `loads[i]` counts the draws in which the fullest link that carries one of the group's flows
// carried i flows.
struct HashLoads {
  std::vector<int> loads;
  int draws = 0;
};

// One switch level that a group's flows are hashed at.
struct HashLevel {
  int flows = 0;
  int links = 0;
  int own = 0;
  int switches = 1;  // independent switches that carry the same number of the group's flows each
  double link_rate = 0;  // bytes/s
  double flow_rate = 0;  // bytes/s that a flow could have without collisions
  bool operator==(const HashLevel&) const = default;
};

// Draws from the seed and caches the draws. COST: a level takes a Monte Carlo the first time that
// its counts of flows and links occur, afterwards a walk over its loads.
class HashTable {
 public:
  explicit HashTable(std::uint64_t seed) : seed_(seed) {}
  // The table of a seed, which clusters share: draws depend on nothing else. It is kept until
  // another seed is asked for.
  static std::shared_ptr<const HashTable> of(std::uint64_t seed);
  // The slowest of all levels and switches decides.
  HashShare share(const std::vector<HashLevel>& levels) const;

 private:
  std::shared_ptr<const HashLoads> loads(int flows, int links, int own) const;
  std::shared_ptr<const HashLoads> drawn(int flows, int links, int own) const;

  std::uint64_t seed_;
  mutable std::mutex mutex_;
  mutable std::map<std::tuple<int, int, int>, std::shared_ptr<const HashLoads>> known_;
};

struct RouteHash::Draws {
  Draws(std::shared_ptr<const HashTable> from, std::vector<HashLevel> at)
      : table(std::move(from)), levels(std::move(at)) {}
  explicit Draws(HashShare known) : share(known) {}

  std::shared_ptr<const HashTable> table;
  std::vector<HashLevel> levels;
  mutable std::once_flag drawn;
  mutable HashShare share;
};

}  // namespace stepcast::cluster
