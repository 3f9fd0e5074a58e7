// ECMP: what hash collisions leave of a rate.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

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
  int switches = 1;      // that carry as many of the group's flows each, independently
  double link_rate = 0;  // bytes/s
  double flow_rate = 0;  // bytes/s that a flow could have without collisions
};

struct HashShare {
  double mean = 1;
  double low = 1;   // 5 %
  double high = 1;  // 95 %
};

// Draws from the seed, and remembers: a level costs a draw the first time that its counts are met,
// then a walk over its loads.
class HashTable {
 public:
  explicit HashTable(std::uint64_t seed) : seed_(seed) {}
  // The slowest of all levels and switches sets the pace.
  HashShare share(const std::vector<HashLevel>& levels) const;

 private:
  std::shared_ptr<const HashLoads> loads(int flows, int links, int own) const;

  std::uint64_t seed_;
  mutable std::mutex mutex_;
  mutable std::map<std::tuple<int, int, int>, std::shared_ptr<const HashLoads>> known_;
};

}  // namespace stepcast::cluster
