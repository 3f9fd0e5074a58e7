// Paths by rule against Boost's search in the cluster drawn vertex by vertex, on random small
// clusters.
#include <random>
#include <set>
#include <string>

#include "../unit/cluster/clusters.h"
#include "catch.hpp"
#include "cluster/graph.h"
#include "stepcast/cluster/topology.h"

using namespace stepcast;
using namespace stepcast::cluster;

namespace {
job::Cluster random_cluster(std::mt19937& rng) {
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(rng);
  };
  job::Cluster c = test::dgx_a100(pick(1, 7));
  c.node.gpus = 1 << pick(0, 3);
  c.node.nics = 1 << pick(0, 4);
  c.device.pcie = Bandwidth(29e9);  // below the thinnest NVLink here: NVLink wins equal hops
  c.node.nic = Bandwidth(pick(5, 50) * 1e9);
  c.fabric.nodes_per_leaf = pick(1, 4);
  c.fabric.oversubscription = pick(1, 3);
  c.fabric.kind = pick(0, 1) == 0 ? job::Fabric::Kind::rail_optimized : job::Fabric::Kind::fat_tree;
  switch (pick(0, 3)) {
    case 0:
      c.node.intra = job::Node::Intra::pcie;
      break;
    case 1:
      c.node.intra = job::Node::Intra::nvlink_mesh;
      break;
    case 2:
      c.fabric.nvlink_domain_gpus = std::max(1, c.node.gpus / 2);
      break;
    default:
      if (pick(0, 1) == 0) {
        c.fabric.nvlink_domain_gpus = 2 * c.node.gpus;
      }
  }
  c.faults.push_back({"node0/nic0", 0.1 * pick(1, 10)});
  c.faults.push_back({"node0/gpu0", 0.1 * pick(1, 10)});
  return c;
}
}  // namespace

TEST_CASE("path() has the fewest hops and the widest narrowest link") {
  std::mt19937 rng(7);
  int pairs = 0;
  for (int round = 0; round < 120; ++round) {
    const auto t = test::built(random_cluster(rng));
    for (int from = 0; from < t.devices(); from += 1 + t.devices() / 8) {
      for (int to = 0; to < t.devices(); ++to) {
        const Path path = t.path(from, to);
        const Way way = shortest_way(t.vertices(), t.links(), from, to);
        INFO(round << ": " << t.vertices()[from].name << " to " << t.vertices()[to].name);
        REQUIRE(path.hops == way.hops);
        if (from != to) {
          REQUIRE(path.bandwidth.count() == Approx(way.bandwidth));
        }
        ++pairs;
      }
    }
  }
  CHECK(pairs > 5000);
}

TEST_CASE("the picture's links come in pairs and join what is there") {
  std::mt19937 rng(8);
  for (int round = 0; round < 40; ++round) {
    const auto t = test::built(random_cluster(rng));
    std::set<std::pair<int, int>> seen;
    for (const auto& link : t.links()) {
      REQUIRE(link.from < static_cast<int>(t.vertices().size()));
      REQUIRE(link.capacity.count() > 0);
      REQUIRE(seen.insert({link.from, link.to}).second);
    }
    for (const auto& [a, b] : seen) {
      REQUIRE(seen.count({b, a}) == 1);
    }
    std::set<std::string> names;
    for (const auto& v : t.vertices()) {
      REQUIRE(names.insert(v.name).second);
    }
  }
}

TEST_CASE("the search itself: a way through a switch, none without one") {
  const std::vector<Vertex> v = {{VertexKind::gpu, "a", 0},
                                 {VertexKind::gpu, "b", 0},
                                 {VertexKind::leaf, "l", -1},
                                 {VertexKind::gpu, "c", 0}};
  const auto link = [](int a, int b, double rate) { return Link{a, b, Bandwidth(rate), Time(0)}; };
  // a - l - b, and a - c - b: GPUs do not forward.
  CHECK(shortest_way(v, {link(0, 2, 5), link(2, 1, 3), link(0, 3, 9), link(3, 1, 9)}, 0, 1)
            .bandwidth == 3);
  CHECK(shortest_way(v, {link(0, 3, 9), link(3, 1, 9)}, 0, 1).hops == -1);
}
