#include "stepcast/cluster/topology.h"

#include "catch.hpp"
#include "clusters.h"

using namespace stepcast;
using namespace stepcast::cluster;
using namespace stepcast::test;

namespace {
Infeasible refused(const job::Cluster& c) {
  auto made = Topology::build(c);
  REQUIRE(std::holds_alternative<Infeasible>(made));
  return std::get<Infeasible>(made);
}
Bandwidth capacity(const Topology& t, int resource) { return t.resources().at(resource).capacity; }
}  // namespace

TEST_CASE("resources are NVLink ports, then both sides of each NIC port") {
  const auto t = built(dgx_a100(2));
  REQUIRE(t.devices() == 16);
  REQUIRE(t.resources().size() == 16 + 2 * 16);
  CHECK(t.resource_name(t.nvlink_port(9)) == "node1/gpu1/nvlink");
  CHECK(capacity(t, t.nvlink_port(9)).count() == 300e9);
  CHECK(t.resource_name(t.nic_out(9)) == "node1/nic1/out");
  CHECK(t.resource_name(t.nic_in(9)) == "node1/nic1/in");
  CHECK(t.resources()[t.nic_in(9)].kind == ResourceKind::nic_in);
  CHECK(t.spine(9) == -1);
  CHECK(t.node_of(9) == 1);
  CHECK(t.domain_of(9) == 1);
}

TEST_CASE("fewer NICs than GPUs are shared, more are bundled") {
  auto c = dgx_a100(2);
  c.node.nics = 4;  // GPUs 2i and 2i+1 share NIC i
  auto t = built(c);
  CHECK(t.nic_out(2) == t.nic_out(3));
  CHECK(t.nic_out(2) != t.nic_out(4));
  CHECK(capacity(t, t.nic_out(2)).count() == 25e9);
  CHECK(t.resource_name(t.nic_out(2)) == "node0/nic1/out");
  // A group with both GPUs of a pair in every node halves what each has.
  CHECK(t.shape(every(0, 8, 2)).nic_per_rank.count() == 25e9);
  const std::vector<int> pairs = {0, 1, 8, 9};
  CHECK(t.shape(pairs).nic_per_rank.count() == 12.5e9);
  CHECK(t.shape(pairs).nic_per_domain.count() == 25e9);

  c.node.nics = 16;
  c.node.nic = Bandwidth(12.5e9);
  t = built(c);
  CHECK(t.resources().size() == 16 + 2 * 16);
  CHECK(capacity(t, t.nic_out(5)).count() == 25e9);
  CHECK(t.resource_name(t.nic_out(5)) == "node0/nic10/out");
}

TEST_CASE("a NIC bundle never passes more than its GPU's PCIe slot") {
  auto c = dgx_a100(2);
  c.node.nic = Bandwidth(50e9);
  const auto t = built(c);
  CHECK(capacity(t, t.nic_out(0)).count() == 31.5e9);
}

TEST_CASE("the fabric's efficiency scales NICs") {
  auto c = dgx_a100(2);
  c.fabric.efficiency = 0.9;
  const auto t = built(c);
  CHECK(capacity(t, t.nic_out(0)).count() == Approx(22.5e9));
  CHECK(t.shape(every(0, 8, 2)).nic_per_rank.count() == Approx(22.5e9));
}

TEST_CASE("paths by class") {
  auto c = dgx_a100(80);
  const auto t = built(c);
  CHECK(t.path(3, 3).kind == PathClass::self);
  const auto near = t.path(0, 7);
  CHECK(near.kind == PathClass::nvlink);
  CHECK(near.bandwidth.count() == 300e9);
  CHECK(near.resources == std::vector<int>{t.nvlink_port(0)});
  const auto rail = t.path(0, 8 * 31);
  CHECK(rail.kind == PathClass::network);
  CHECK(rail.hops == 4);  // NIC, rail leaf, NIC
  CHECK(rail.resources == std::vector<int>{t.nic_out(0), t.nic_in(8 * 31)});
  CHECK(t.path(0, 8 * 32).hops == 6);  // the next pod
  CHECK(t.path(0, 9).hops == 6);       // another rail
  CHECK(t.path(0, 8 * 32).latency > rail.latency);

  c.node.intra = job::Node::Intra::pcie;
  c.device.nvlink = Bandwidth(0);
  const auto p = built(c);
  CHECK(p.path(0, 1).kind == PathClass::pcie);
  CHECK(p.path(0, 1).bandwidth.count() == 31.5e9);
  CHECK_FALSE(p.shape(every(0, 1, 4)).has_nvlink);
}

TEST_CASE("NVLink in pairs leaves PCIe between the pairs") {
  auto c = dgx_a100(1);
  c.fabric.nvlink_domain_gpus = 2;
  const auto t = built(c);
  CHECK(t.path(0, 1).kind == PathClass::nvlink);
  CHECK(t.path(1, 2).kind == PathClass::pcie);
  const auto s = t.shape(every(0, 1, 4));
  CHECK(s.domains == 2);
  CHECK(s.nodes == 1);
  CHECK(s.nic_per_rank.count() == 31.5e9);
}

TEST_CASE("racks hold equal parts of a job, or whole segments of it") {
  const auto trays = [](int nodes, int segment) {  // of the first rack
    auto c = nvl72(nodes);
    c.fabric.segment = segment;
    const auto t = built(c);
    int n = 1;
    while (n < nodes && t.path(0, 4 * n).kind == PathClass::nvlink) {
      ++n;
    }
    return n;
  };
  CHECK(trays(64, 0) == 16);
  CHECK(trays(20, 0) == 10);
  CHECK(trays(36, 0) == 18);
  CHECK(trays(16, 0) == 16);
  CHECK(trays(38, 0) == 18);  // nine segments of two
  CHECK(trays(19, 0) == 18);
  CHECK(trays(64, 18) == 18);
  CHECK(trays(64, 4) == 16);
  CHECK(trays(64, 1) == 18);
  auto c = nvl72(64);
  c.fabric.segment = 19;
  CHECK(refused(c).key == "cluster.fabric.segment");
  c = dgx_a100(2);
  c.fabric.segment = 2;  // its domains are single nodes
  CHECK(refused(c).key == "cluster.fabric.segment");
}

TEST_CASE("an NVL72 rack is one domain of 18 trays") {
  const auto t = built(nvl72(36));
  CHECK(t.path(0, 71).kind == PathClass::nvlink);
  CHECK(t.path(0, 72).kind == PathClass::network);
  const auto rack = t.shape(every(0, 1, 72));
  CHECK(rack.domains == 1);
  CHECK(rack.nodes == 18);
  CHECK(rack.nvls);
  const auto both = t.shape(every(0, 1, 144));
  CHECK(both.domains == 2);
  CHECK(both.ranks_per_domain == 72);
  CHECK(both.nic_per_rank.count() == 50e9);
  CHECK(both.nics_per_domain == 72);
}

TEST_CASE("shape of tensor, data and mixed groups") {
  const auto t = built(dgx_a100(4));
  const auto tensor = t.shape(every(8, 1, 8));
  CHECK(tensor.ranks == 8);
  CHECK(tensor.domains == 1);
  CHECK(tensor.nodes == 1);
  CHECK(tensor.even);
  CHECK(tensor.nic_per_rank.count() == 0);
  CHECK(tensor.nvlink.count() == 300e9);
  CHECK(tensor.compute_capability == 8.0);
  const auto data = t.shape(every(3, 8, 4));
  CHECK(data.domains == 4);
  CHECK(data.ranks_per_domain == 1);
  CHECK(data.nic_per_rank.count() == 25e9);
  CHECK(data.nic_per_domain.count() == 25e9);
  const auto all = t.shape(every(0, 1, 32));
  CHECK(all.nic_per_domain.count() == 200e9);
  CHECK(all.nics_per_domain == 8);
  const std::vector<int> uneven = {0, 1, 2, 8};
  CHECK_FALSE(t.shape(uneven).even);
  // The order of members does not matter.
  const std::vector<int> mixed = {8, 2, 0, 1};
  CHECK(t.shape(mixed) == t.shape(uneven));
}

TEST_CASE("oversubscription binds only groups that cross spines") {
  auto c = dgx_a100(8);
  c.fabric.nodes_per_leaf = 4;
  c.fabric.oversubscription = 2;
  for (const auto kind : {job::Fabric::Kind::rail_optimized, job::Fabric::Kind::fat_tree}) {
    c.fabric.kind = kind;
    const auto t = built(c);
    const auto inside = t.shape(every(0, 8, 4));
    CHECK_FALSE(inside.crosses_spine);
    CHECK(inside.nic_per_rank.count() == 25e9);
    const auto across = t.shape(every(0, 8, 8));
    CHECK(across.crosses_spine);
    CHECK(across.domains_per_leaf == 4);
    const auto whole = t.shape(every(0, 1, 64));
    CHECK(whole.nics_per_leaf == (kind == job::Fabric::Kind::fat_tree ? 8 : 1));
    CHECK(across.nic_per_rank.count() == 25e9);  // one of four nodes sends the ring onward
    // All-to-all of 4 of 8 nodes: 4 / 7 of 4 ports over 2 ports' uplink; a tree's leaf has 16.
    const bool tree = kind == job::Fabric::Kind::fat_tree;
    CHECK(across.pairs_nic_per_domain.count() == Approx(tree ? 25e9 : 12.5e9 * 7 / 4));
    REQUIRE(t.spine(0) >= 0);
    const int leaves = kind == job::Fabric::Kind::fat_tree ? 2 : 16;
    CHECK(t.resources().size() == static_cast<std::size_t>(64 + 128 + leaves));
    const double ports = kind == job::Fabric::Kind::fat_tree ? 32 : 4;
    CHECK(capacity(t, t.spine(0)).count() == ports * 25e9 / 2);
    CHECK((t.spine(0) == t.spine(1)) == (kind == job::Fabric::Kind::fat_tree));
    const auto far = t.path(0, 8 * 4);
    CHECK(far.resources == std::vector<int>{t.nic_out(0), t.spine(0), t.nic_in(8 * 4)});
  }
}

TEST_CASE("faults scale the link they name") {
  auto c = dgx_a100(8);
  c.fabric.nodes_per_leaf = 4;
  c.faults = {{"node3/nic2", 0.5, false}, {"node1/gpu4", 0.25, false}, {"leaf8/up", 0.5, false}};
  const auto t = built(c);
  CHECK(capacity(t, t.nic_out(8 * 3 + 2)).count() == 12.5e9);
  CHECK(capacity(t, t.nic_in(8 * 3 + 2)).count() == 12.5e9);
  CHECK(capacity(t, t.nic_out(8 * 3 + 1)).count() == 25e9);
  CHECK(capacity(t, t.nvlink_port(8 + 4)).count() == 75e9);
  CHECK(t.shape(every(8, 1, 8)).nvlink.count() == 75e9);
  CHECK(t.shape(every(2, 8, 4)).nic_per_rank.count() == 12.5e9);
  CHECK(t.shape(every(1, 8, 4)).nic_per_rank.count() == 25e9);
  // Leaf 8 is rail 0 of the second pod: its halved uplink is a bottleneck although the fabric is
  // not oversubscribed.
  CHECK(t.spine(8 * 4) >= 0);
  CHECK(t.spine(0) == -1);
  CHECK(t.shape(every(0, 8, 8)).pairs_nic_per_domain.count() == Approx(12.5e9 * 7 / 4));
}

TEST_CASE("a fault on one NIC of a bundle leaves the others") {
  auto c = dgx_a100(2);
  c.node.nics = 16;
  c.node.nic = Bandwidth(12.5e9);
  c.faults = {{"node0/nic3", 0.2}};
  const auto t = built(c);
  CHECK(capacity(t, t.nic_out(1)).count() == Approx(12.5e9 * 1.2));
}

TEST_CASE("faults that name nothing, and clusters that cannot be, are refused") {
  auto c = dgx_a100(2);
  for (const auto* target : {"node2/nic0", "node0/nic8", "node0/gpu8", "node0/nic", "node-1/nic0",
                             "leaf8/up", "node0", "", "nodex/gpu1", "node0/gpu1x"}) {
    c.faults = {{target, 0.5}};
    INFO(target);
    CHECK(refused(c).key == "cluster.faults");
  }
  for (const double left : {0.0, -1.0, 1.5}) {
    c.faults = {{"node0/nic0", left}};
    CHECK(refused(c).key == "cluster.faults");
  }
  c.faults.clear();
  c.fabric.nvlink_domain_gpus = 12;
  CHECK(refused(c).key == "cluster.fabric.nvlink_domain_gpus");
  c.fabric.nvlink_domain_gpus = 0;
  c.node.nics = 0;
  CHECK(refused(c).key == "cluster.fabric");
  c.nodes = 1;
  CHECK(std::holds_alternative<Topology>(Topology::build(c)));
  auto apart = c;
  apart.device.nvlink = apart.device.pcie = Bandwidth(0);
  CHECK(refused(apart).key == "cluster.device.pcie");
  c.overrides = {{0, 2, c.device}};
  CHECK(refused(c).key == "cluster.overrides");
}

TEST_CASE("nodes with another device make the slowest member") {
  auto c = hgx_h100(4);
  job::Device old = dgx_a100(1).device;
  c.overrides = {{2, 1, old}};
  const auto t = built(c);
  CHECK(t.device(8).name == "h100-sxm");
  CHECK(t.device(16).name == "a100-sxm-80");
  CHECK(t.shape(every(0, 1, 8)).nvls);
  const auto mixed = t.shape(every(0, 8, 4));
  CHECK(mixed.compute_capability == 8.0);
  CHECK(mixed.nvlink.count() == 300e9);
  CHECK_FALSE(mixed.nvls);
  CHECK(t.shape(every(0, 8, 2)).nvlink.count() == 450e9);
}

TEST_CASE("grid: rank and coordinates are inverse in every order") {
  Grid g;
  g.tensor = 2;
  g.context = 3;
  g.data = 4;
  g.pipeline = 5;
  for (const auto* order :
       {"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "pp-dp-ep-cp-tp", "dp-tp-pp-cp-ep", "tp-cp-dp-pp"}) {
    g.order = order;
    std::vector<bool> seen(g.ranks(), false);
    for (int rank = 0; rank < g.ranks(); ++rank) {
      const auto at = coordinates(g, rank);
      CHECK(rank_at(g, at) == rank);
      seen[rank] = true;
      CHECK((at.tensor < 2 && at.context < 3 && at.data < 4 && at.pipeline < 5));
    }
  }
  // Megatron's default: tensor ranks are neighbours, pipeline ranks farthest apart.
  g.order = "tp-cp-ep-dp-pp";
  CHECK(rank_at(g, {1, 0, 0, 0}) == 1);
  CHECK(rank_at(g, {0, 1, 0, 0}) == 2);
  CHECK(rank_at(g, {0, 0, 1, 0}) == 6);
  CHECK(rank_at(g, {0, 0, 0, 1}) == 24);
  g.order = "tp-cp-ep-pp-dp";
  CHECK(rank_at(g, {0, 0, 0, 1}) == 6);
  CHECK(rank_at(g, {0, 0, 1, 0}) == 30);
}
