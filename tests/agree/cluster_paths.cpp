// Compares the rules for paths with Boost's search in the complete graph of random small clusters.
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
  c.device.pcie = Bandwidth(29e9);  // below the slowest NVLink here, so NVLink wins for equal hops
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
  c.faults.push_back({"node0/nic0", 0.1 * pick(1, 10), false});
  c.faults.push_back({"node0/gpu0", 0.1 * pick(1, 10), false});
  return c;
}

// Adds levels above the spines, listed NVLink links, PCIe trees, and failed parts.
job::Cluster richer_cluster(std::mt19937& rng) {
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(rng);
  };
  job::Cluster c = random_cluster(rng);
  c.nodes = pick(2, 10);
  c.fabric.spines = pick(0, 3);
  c.fabric.nodes_per_pod = c.fabric.nodes_per_leaf * pick(1, 3);
  c.fabric.core_oversubscription = 0.5 * pick(1, 6);
  if (pick(0, 2) == 0) {
    c.fabric.kind = job::Fabric::Kind::dragonfly;
  }
  if (pick(0, 1) == 0) {
    c.node.sockets = 1 << pick(0, 1);
    c.node.pcie_switches = c.node.sockets * pick(0, 2);
    c.node.pcie_uplink = Bandwidth(pick(10, 40) * 1e9);
    c.node.inter_socket = Bandwidth(pick(0, 2) * 9e9);
    c.node.peer_to_peer = pick(0, 1) == 0;
  }
  if (c.node.intra == job::Node::Intra::nvlink_mesh && c.node.gpus > 1) {
    for (int a = 0; a < c.node.gpus; ++a) {
      for (int b = 0; b < a; ++b) {
        if (pick(0, 1) == 0) {
          c.node.nvlink_links.push_back({a, b, pick(1, 3)});
        }
      }
    }
    c.device.pcie = Bandwidth(7e9);
    if (!c.node.nvlink_links.empty()) {
      const auto& edge = c.node.nvlink_links.front();
      c.faults.push_back(
          {"node1/gpu" + std::to_string(edge.a) + "-gpu" + std::to_string(edge.b), 0.5, false});
    }
  }
  if (c.node.nics > 1 && c.node.gpus > 1) {
    c.faults.push_back({"node1/nic1", 1, true});
  }
  for (const auto* target : {"leaf0", "leaf0/up", "spine0", "pod0/up", "rail0"}) {
    if (pick(0, 3) == 0 && std::holds_alternative<Topology>(Topology::build(c))) {
      c.faults.push_back({target, 0.1 * pick(1, 9), pick(0, 2) == 0});
      if (std::holds_alternative<Infeasible>(Topology::build(c))) {
        c.faults.pop_back();  // there is no such part, or no path is left without it
      }
    }
  }
  return c;
}

job::Cluster random_torus(std::mt19937& rng) {
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(rng);
  };
  job::Cluster c = test::dgx_a100(1);
  c.fabric.kind = job::Fabric::Kind::torus;
  c.fabric.torus_block = pick(0, 2) * 2;
  for (int d = pick(1, 3); d > 0; --d) {
    c.fabric.torus.push_back(pick(1, 5));
  }
  c.node.gpus = c.fabric.torus.front();
  for (std::size_t d = 1; d < c.fabric.torus.size(); ++d) {
    c.nodes *= c.fabric.torus[d];
  }
  return c;
}

int agree(const cluster::Topology& t, int round, int begin) {
  int pairs = 0;
  for (int from = begin % t.devices(); from < t.devices(); from += 1 + t.devices() / 8) {
    for (int to = 0; to < t.devices(); ++to) {
      const Path path = t.path(from, to);
      const Way way = shortest_way(t.vertices(), t.links(), from, to);
      INFO(round << ": " << t.vertices()[from].name << " to " << t.vertices()[to].name);
      REQUIRE(path.hops == way.hops);
      if (from != to) {
        REQUIRE(path.bandwidth.count() == Approx(way.bandwidth));
      }
      for (const int r : path.resources) {
        REQUIRE(t.resources().at(static_cast<std::size_t>(r)).capacity.count() > 0);
        // The bandwidth of a single flow never exceeds that of any of its resources.
        REQUIRE(path.bandwidth.count() <=
                t.resources()[static_cast<std::size_t>(r)].capacity.count() * (1 + 1e-12));
      }
      ++pairs;
    }
  }
  return pairs;
}
}  // namespace

TEST_CASE("path() has the fewest hops and the widest narrowest link") {
  std::mt19937 rng(7);
  int pairs = 0;
  for (int round = 0; round < 120; ++round) {
    pairs += agree(test::built(random_cluster(rng)), round, 0);
  }
  CHECK(pairs > 5000);
}

TEST_CASE(
    "path() agrees with the search on pods, dragonflies, listed links, PCIe trees and faults") {
  std::mt19937 rng(9);
  int pairs = 0;
  int built = 0;
  for (int round = 0; round < 300; ++round) {
    auto made = Topology::build(richer_cluster(rng));
    if (const auto* t = std::get_if<Topology>(&made)) {  // in some clusters a node loses all NICs
      pairs += agree(*t, round, round);
      ++built;
    }
  }
  CHECK(built > 250);
  CHECK(pairs > 10000);
}

TEST_CASE("in a torus the dimension-ordered way is a shortest one") {
  std::mt19937 rng(10);
  int pairs = 0;
  for (int round = 0; round < 240; ++round) {
    pairs += agree(test::built(random_torus(rng)), round, round);
  }
  CHECK(pairs > 5000);
}

TEST_CASE("the picture's links come in pairs and join what is there") {
  std::mt19937 rng(8);
  for (int round = 0; round < 40; ++round) {
    const auto t = test::built(round % 4 == 0   ? random_torus(rng)
                               : round % 4 == 1 ? random_cluster(rng)
                                                : richer_cluster(rng));
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
