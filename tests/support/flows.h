// Flows over shared links: the workloads with which tests compare the engine and SimGrid, and which
// the benchmarks of both use. The same seed gives the same flows. Links are directed; a flow
// crosses each of its links once.
#pragma once

#include <cstdint>
#include <vector>

#include "stepcast/program/program.h"
#include "support/random_world.h"

namespace stepcast::testing {

struct Flow {
  std::vector<ResourceId> links;
  std::int64_t bytes = 0;
  std::int64_t cap = 0;    // rate without contention, bytes per second
  std::int64_t start = 0;  // picoseconds
};

// A three-level k-ary fat tree without oversubscription: k^3 / 4 hosts, k pods of k / 2 edge and k
// / 2 aggregation switches, k^2 / 4 core switches. All links are equal, with one resource per
// direction.
class FatTree {
 public:
  FatTree(int k, std::int64_t capacity) : half_(k / 2), hosts_(k * k * k / 4) {
    links.assign(static_cast<std::size_t>(6 * hosts_), Resource{capacity});
  }
  int hosts() const { return hosts_; }
  int hosts_per_edge() const { return half_; }

  // A minimal route; `hash` selects one of the k^2 / 4 ways up, as ECMP does.
  std::vector<ResourceId> route(int from, int to, std::uint64_t hash) const {
    const int below = static_cast<int>(hash % static_cast<std::uint64_t>(half_));
    const int above = static_cast<int>(hash / static_cast<std::uint64_t>(half_) %
                                       static_cast<std::uint64_t>(half_));
    std::vector<ResourceId> out{up(0, from)};
    const bool one_edge = from / half_ == to / half_;
    const bool one_pod = from / (half_ * half_) == to / (half_ * half_);
    if (!one_edge) {
      // The route goes from the edge switch to the pod's aggregation switch `below`, and from there
      // to its core switch `above`.
      const int pod_of_from = from / (half_ * half_);
      const int pod_of_to = to / (half_ * half_);
      out.push_back(up(1, from / half_ * half_ + below));
      if (!one_pod) {
        out.push_back(up(2, (pod_of_from * half_ + below) * half_ + above));
        out.push_back(down(2, (pod_of_to * half_ + below) * half_ + above));
      }
      out.push_back(down(1, to / half_ * half_ + below));
    }
    out.push_back(down(0, to));
    return out;
  }

  std::vector<Resource> links;

 private:
  // Each level and direction has as many links as there are hosts.
  ResourceId up(int level, int i) const { return program::ResourceId::at(2 * level * hosts_ + i); }
  ResourceId down(int level, int i) const {
    return program::ResourceId::at((2 * level + 1) * hosts_ + i);
  }
  int half_;
  int hosts_;
};

// Common parameters of the benchmarks of the engine and SimGrid: 1,024 hosts, links of 25 GB/s (200
// Gbit/s), payloads of 1 to 64 MiB, uniformly random hosts and routes. As soon as a flow ends, the
// next begins, so that `in_flight` flows are always active.
constexpr int kBenchmarkPorts = 16;  // 16^3 / 4 = 1,024 hosts
constexpr std::int64_t kBenchmarkRate = 25'000'000'000;

class RandomTraffic {
 public:
  explicit RandomTraffic(const FatTree& tree, std::uint64_t seed = 1024)
      : tree_(&tree), random_(seed) {}
  Flow next() {
    const auto from = static_cast<int>(random_.in(0, tree_->hosts() - 1));
    auto to = static_cast<int>(random_.in(0, tree_->hosts() - 2));
    to += to >= from ? 1 : 0;
    Flow f;
    f.links = tree_->route(from, to, random_.next());
    f.bytes = random_.in(1 << 20, 64 << 20);
    f.cap = tree_->links.front().capacity;
    return f;
  }

 private:
  const FatTree* tree_;
  Random random_;
};

// One step of a ring over all hosts in order: each sends `bytes` to the next, and all begin
// together. A route to another edge switch goes up by the sender's index below its own switch, so
// that these routes share no link.
inline std::vector<Flow> ring_step(const FatTree& tree, std::int64_t bytes) {
  std::vector<Flow> out;
  for (int from = 0; from < tree.hosts(); ++from) {
    Flow f;
    f.links = tree.route(from, (from + 1) % tree.hosts(),
                         static_cast<std::uint64_t>(from % tree.hosts_per_edge()));
    f.bytes = bytes;
    f.cap = tree.links.front().capacity;
    out.push_back(std::move(f));
  }
  return out;
}

}  // namespace stepcast::testing
