#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "graph.h"
#include "hash.h"
#include "plan.h"
#include "stepcast/cluster/topology.h"

namespace stepcast::cluster {

struct Topology::State {
  explicit State(std::uint64_t seed) : hash(HashTable::of(seed)) {}
  // ring_rate of some GPUs of a node (a bit for each), searched once for each set.
  double ring(int node, std::uint32_t members) const;

  Plan plan;
  std::shared_ptr<const State> named;  // hardware::at_named_rates; nullptr: the same
  std::shared_ptr<const HashTable> hash;
  mutable std::mutex rings_mutex;
  mutable std::map<std::pair<int, std::uint32_t>, double> rings;
  mutable std::once_flag resources_made;
  mutable std::vector<Resource> resources;
  mutable std::once_flag picture_made;
  mutable Picture picture;
};

}  // namespace stepcast::cluster
