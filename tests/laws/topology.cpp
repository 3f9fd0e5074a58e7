// Physical properties of a topology in closed form: paths and group shapes.
#include "stepcast/cluster/topology.h"

#include <map>
#include <set>

#include "../unit/cluster/clusters.h"
#include "catch.hpp"

using namespace stepcast;
using namespace stepcast::cluster;
using namespace stepcast::test;
using job::Fabric;

namespace {

constexpr double kPort = 25e9;  // of dgx_a100

// 16 nodes in leaves of 4, on one kind of fabric.
job::Cluster sixteen(Fabric::Kind kind, double oversubscription = 1) {
  auto c = dgx_a100(16);
  c.fabric.kind = kind;
  c.fabric.nodes_per_leaf = 4;
  c.fabric.oversubscription = oversubscription;
  return c;
}

// 16 nodes in pods (dragonfly+: groups) of 4, leaves of 2.
job::Cluster pods(Fabric::Kind kind, double core, int nodes = 16) {
  auto c = dgx_a100(nodes);
  c.fabric.kind = kind;
  c.fabric.nodes_per_leaf = 2;
  c.fabric.nodes_per_pod = 4;
  c.fabric.core_oversubscription = core;
  return c;
}

double rate(const Topology& t, const std::vector<int>& slots) {
  return t.shape(slots).nic_per_domain.count();
}
double pairs(const Topology& t, const std::vector<int>& slots) {
  return t.shape(slots).pairs_nic_per_domain.count();
}

job::Cluster chips(std::vector<int> torus, int block = 0) {
  auto c = dgx_a100(1);
  c.fabric.kind = Fabric::Kind::torus;
  c.node.gpus = 1;
  c.node.nics = 0;
  c.device.compute_capability = 0;
  for (const int n : torus) {
    c.nodes *= n;
  }
  c.fabric.torus = std::move(torus);
  c.fabric.torus_block = block;
  return c;
}

// NVIDIA DGX-1 with V100: `nvidia-smi topo -m` of an AWS p3.16xlarge.
job::Cluster dgx_1() {
  auto c = dgx_a100(1);
  c.device.compute_capability = 7.0;
  c.device.nvlink = Bandwidth(150e9);
  c.device.nvlink_generation = 2;
  c.device.pcie = Bandwidth(15.75e9);
  c.node.intra = job::Node::Intra::nvlink_mesh;
  c.node.nvlink_links = {{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1},
                         {1, 5, 2}, {2, 3, 2}, {2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1},
                         {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2}};
  return c;
}

}  // namespace

TEST_CASE("half a NIC halves what leaves the node and nothing inside it") {
  for (const auto kind : {Fabric::Kind::rail_optimized, Fabric::Kind::fat_tree}) {
    auto c = sixteen(kind);
    const auto whole = built(c);
    c.node.nic = Bandwidth(kPort / 2);
    const auto half = built(c);
    for (const int nodes : {2, 4, 16}) {
      const auto group = every(0, 1, 8 * nodes);
      CHECK(rate(half, group) == rate(whole, group) / 2);
      CHECK(pairs(half, group) == pairs(whole, group) / 2);
    }
    CHECK(half.path(0, 8).bandwidth == Bandwidth(whole.path(0, 8).bandwidth.count() / 2));
    const auto node = every(0, 1, 8);
    CHECK(half.shape(node) == whole.shape(node));
    CHECK(half.path(0, 1).bandwidth == whole.path(0, 1).bandwidth);
  }
}

// In an all-to-all over `all` domains with d below one switch: number of ports' worth of traffic
// that each of these nodes sends beyond it.
double leaving(double all, double d) { return (all - d) / (all - 1); }

TEST_CASE("oversubscription bites where traffic crosses the spine, and only there") {
  for (const auto kind : {Fabric::Kind::rail_optimized, Fabric::Kind::fat_tree}) {
    const auto full = built(sixteen(kind));
    const auto thin = built(sixteen(kind, 2));
    const auto below = every(0, 1, 8 * 4);  // one unit
    CHECK(thin.shape(below) == full.shape(below));
    const auto across = every(0, 1, 8 * 8);
    CHECK(full.shape(across).crosses_spine);
    CHECK(pairs(thin, across) == Approx(pairs(full, across) / 2 / leaving(8, 4)));
    // Only one of the four nodes below a leaf sends the ring onward: half of the uplinks are more
    // than enough, and an eighth is half of what it needs.
    CHECK(rate(thin, across) == rate(full, across));
    CHECK(rate(built(sixteen(kind, 8)), across) == rate(full, across) / 2);
    CHECK(full.spine(0) == -1);  // a resource that cannot be a bottleneck is left out
    REQUIRE(thin.spine(0) >= 0);
    const auto has = [&](const Path& path, int resource) {
      return std::count(path.resources.begin(), path.resources.end(), resource) == 1;
    };
    CHECK_FALSE(has(thin.path(0, 8), thin.spine(0)));
    CHECK(has(thin.path(0, 8 * 4), thin.spine(0)));
  }
}

TEST_CASE("on rails an all-reduce keeps to them; all-to-all does with PXN") {
  auto c = sixteen(Fabric::Kind::rail_optimized, 4);
  const auto group = every(0, 1, 8 * 4);  // every rail of one unit
  const auto with = built(c).shape(group);
  CHECK_FALSE(with.crosses_spine);
  CHECK_FALSE(with.pairs_cross_spine);
  CHECK(with.nic_per_domain.count() == 8 * kPort);
  CHECK(with.pairs_nic_per_domain.count() == 8 * kPort);
  c.fabric.pxn = false;
  const auto without = built(c).shape(group);
  CHECK_FALSE(without.crosses_spine);
  CHECK(without.nic_per_domain.count() == 8 * kPort);
  CHECK(without.pairs_cross_spine);
  // 7 of 8 pairs change rails, over a quarter of a port each.
  CHECK(without.pairs_nic_per_domain.count() == Approx(8 * kPort / 4 * 8 / 7));
  // With a single rail there is no other rail to cross to.
  CHECK_FALSE(built(c).shape(every(3, 8, 4)).pairs_cross_spine);
  // GPUs without NVLink cannot pass data to each other's NIC.
  c.fabric.pxn = true;
  c.node.intra = job::Node::Intra::pcie;
  CHECK(built(c).shape(group).pairs_cross_spine);
  // Members on different rails have no rail in common.
  c = sixteen(Fabric::Kind::rail_optimized, 4);
  const std::vector<int> apart = {0, 9};
  CHECK_FALSE(built(c).shape(apart).crosses_spine);
  c.fabric.pxn = false;
  CHECK(built(c).shape(apart).crosses_spine);
  // a quarter of four uplinks for this member alone
  CHECK(built(c).shape(apart).nic_per_domain.count() == kPort);
  CHECK(built(c).shape(apart).pairs_nic_per_domain.count() == kPort);
  // A tree has one leaf for all rails.
  c = sixteen(Fabric::Kind::fat_tree, 4);
  c.fabric.pxn = false;
  CHECK_FALSE(built(c).shape(group).pairs_cross_spine);
}

TEST_CASE("a degraded part slows exactly the groups that use it") {
  struct Case {
    const char* target;
    bool uses_nic;  // data group over all nodes: NIC or spine
    std::set<int> rails;
  };
  const auto c = sixteen(Fabric::Kind::rail_optimized);
  const auto whole = built(c);
  const std::set<int> all = {0, 1, 2, 3, 4, 5, 6, 7};
  constexpr double kLeft = 0.1;
  // One of four spines; the other three; and the traffic that 4 of 16 nodes send beyond their leaf.
  const std::map<std::string, double> expected = {
      {"spine0", (1 - (1 - kLeft) / 4) / leaving(16, 4)}, {"leaf10/up", kLeft / leaving(16, 4)}};
  for (const auto& [target, data, rails] :
       {Case{"node5/nic2", true, {2}}, Case{"leaf10", true, {2}}, Case{"leaf10/up", true, {2}},
        Case{"rail2", true, {2}}, Case{"spine0", true, all}, Case{"node5/gpu2", false, {}}}) {
    auto hurt = c;
    hurt.faults = {{target, kLeft, false}};
    const auto t = built(hurt);
    INFO(target);
    for (int rail = 0; rail < 8; ++rail) {
      const auto group = every(rail, 8, 16);
      const double left = pairs(t, group) / pairs(whole, group);
      if (rails.count(rail) == 0) {
        CHECK(left == 1);
      } else {
        CHECK(left == Approx(expected.count(target) != 0 ? expected.at(target) : kLeft));
      }
    }
    for (int node = 0; node < 16; ++node) {
      const auto group = every(8 * node, 1, 8);
      const bool same = t.shape(group) == whole.shape(group);
      CHECK(same == (data || node != 5));
    }
  }
}

TEST_CASE("one rail at half speed halves what is spread over all rails") {
  auto c = sixteen(Fabric::Kind::rail_optimized);
  const auto whole = built(c);
  for (const auto* target : {"rail3", "node5/nic3", "leaf3"}) {
    auto hurt = c;
    hurt.faults = {{target, 0.5, false}};
    const auto t = built(hurt);
    const auto all = every(0, 1, 128);
    CHECK(rate(t, all) == rate(whole, all) / 2);
    CHECK(pairs(t, all) == pairs(whole, all) / 2);
    const std::vector<int> others = {0, 1, 40, 41};  // rails 0 and 1 of nodes 0 and 5
    CHECK(rate(t, others) == rate(whole, others));
  }
}

TEST_CASE("what is down is gone: its neighbours serve, or nothing runs") {
  auto c = sixteen(Fabric::Kind::rail_optimized);
  const auto whole = built(c);
  c.faults = {{"node1/nic0", 1, true}};
  const auto t = built(c);
  CHECK(t.nic_out(8) == t.nic_out(9));  // the GPU of rail 0 uses NIC 1
  CHECK(t.nic_out(16) == whole.nic_out(16));
  CHECK(t.shape(every(0, 8, 2)).nic_per_domain.count() == kPort);
  const std::vector<int> both = {0, 1, 8, 9};
  CHECK(rate(t, both) == kPort);
  CHECK(rate(whole, both) == 2 * kPort);
  CHECK(rate(t, every(0, 1, 16)) == 7 * kPort);
  CHECK(pairs(t, every(0, 1, 16)) == 8 * kPort / 2);  // two ranks share a NIC
  CHECK(rate(t, every(16, 1, 16)) == 8 * kPort);
  c.fabric.pxn = false;
  CHECK(built(c).shape(every(0, 8, 2)).crosses_spine);  // rail 0 to rail 1
  CHECK_FALSE(built(c).shape(every(1, 8, 2)).crosses_spine);

  c.fabric.pxn = true;
  c.faults = {{"rail7", 1, true}};
  CHECK(rate(built(c), every(0, 1, 128)) == 7 * kPort);
  CHECK(built(c).nic_out(7) == built(c).nic_out(6));
  c.faults = {{"leaf3", 1, true}};  // rail 3 of the first unit
  CHECK(rate(built(c), every(0, 1, 32)) == 7 * kPort);
  CHECK(rate(built(c), every(32, 1, 32)) == 8 * kPort);
  c.faults = {{"spine1", 1, true}};
  CHECK(pairs(built(c), every(0, 8, 16)) == Approx(kPort * 3 / 4 / leaving(16, 4)));
  CHECK(rate(built(c), every(0, 8, 16)) == kPort);  // one of four nodes sends the ring onward
  CHECK(rate(built(c), every(0, 8, 4)) == kPort);

  const auto refused = [](const job::Cluster& cluster) {
    const auto made = Topology::build(cluster);
    const auto* no = std::get_if<Infeasible>(&made);
    return no != nullptr ? no->key + ": " + no->reason : "";
  };
  auto tree = sixteen(Fabric::Kind::fat_tree);
  tree.faults = {{"leaf1", 1, true}};
  CHECK(refused(tree) == "cluster.faults: node4 loses all its NICs");
  tree.faults = {{"leaf1/up", 1, true}};
  CHECK(refused(tree) == "cluster.faults: node4 loses all its NICs");
  tree.faults.clear();
  for (int nic = 0; nic < 8; ++nic) {
    tree.faults.push_back({"node2/nic" + std::to_string(nic), 1, true});
  }
  CHECK(refused(tree) == "cluster.faults: node2 loses all its NICs");
  tree.faults = {{"node2/gpu1", 1, true}};
  CHECK(refused(tree).find("leave its node out") != std::string::npos);
  auto three = pods(Fabric::Kind::fat_tree, 1);
  three.faults = {{"pod1/up", 1, true}};
  CHECK(refused(three) == "cluster.faults: pod1 is cut off from the others");
}

TEST_CASE("three-level tree: the core's oversubscription bites between pods only") {
  for (const auto kind : {Fabric::Kind::rail_optimized, Fabric::Kind::fat_tree}) {
    const auto full = built(pods(kind, 1));
    const auto thin = built(pods(kind, 4));
    CHECK(thin.shape(every(0, 1, 32)) == full.shape(every(0, 1, 32)));  // one pod
    const auto all = every(0, 1, 128);
    CHECK(full.shape(all).crosses_core);
    CHECK(rate(full, all) == 8 * kPort);
    CHECK(pairs(thin, all) == Approx(8 * kPort / 4 / leaving(16, 4)));
    // Only one of a pod's four nodes sends the ring to the next pod.
    CHECK(rate(thin, all) == 8 * kPort);
    CHECK(rate(built(pods(kind, 16)), all) == Approx(8 * kPort / 4));
    CHECK(full.core(0) == -1);
    REQUIRE(thin.core(0) >= 0);
    const auto& core = thin.resources()[thin.core(0)];
    CHECK(thin.resource_name(thin.core(0)) == "pod0/up");
    CHECK(core.kind == ResourceKind::spine);
    CHECK(core.capacity.count() == Approx(4 * 8 * kPort / 4));
    CHECK(thin.core(31) == thin.core(0));
    CHECK(thin.core(32) != thin.core(0));
    CHECK(thin.path(0, 8).hops == 4);
    CHECK(thin.path(0, 16).hops == 6);
    const auto far = thin.path(0, 32);
    CHECK(far.hops == 8);
    CHECK(far.resources.size() == 3);  // NIC, core, NIC
    CHECK(full.path(0, 32).resources.size() == 2);
    CHECK(far.latency > thin.path(0, 16).latency);
    CHECK(full.shape(all).network_latency > full.shape(every(0, 1, 32)).network_latency);
  }
  // If both levels are oversubscribed, the factors multiply.
  auto c = pods(Fabric::Kind::fat_tree, 6);
  c.fabric.oversubscription = 2;
  CHECK(pairs(built(c), every(0, 1, 32)) == Approx(8 * kPort / 2 / leaving(4, 2)));
  CHECK(pairs(built(c), every(0, 1, 128)) == Approx(8 * kPort / 6 / leaving(16, 4)));
}

TEST_CASE("dragonfly+: global links by taper and routing") {
  // 4 groups of 4 nodes; global capacity g = 32 ports / taper; d = g / 3 between two groups.
  for (const double taper : {1.0, 2.0}) {
    auto c = pods(Fabric::Kind::dragonfly, taper);
    const double port = kPort / taper;  // a port's share of g
    // The same, as only one of four nodes sends out of the group.
    const double ring = 4 * kPort / taper;
    for (const bool adaptive : {true, false}) {
      c.fabric.routing = adaptive ? Fabric::Routing::adaptive : Fabric::Routing::ecmp;
      const auto t = built(c);
      CHECK(rate(t, every(0, 1, 32)) == 8 * kPort);
      // Two of four groups: adaptive routing uses all global links, minimal routing a third of
      // them.
      const auto two = every(0, 1, 64);
      CHECK(rate(t, two) == Approx(8 * std::min(kPort, adaptive ? ring : ring / 3)));
      CHECK(pairs(t, two) ==
            Approx(8 * std::min(kPort, (adaptive ? port : port / 3) / leaving(8, 4))));
      // All four groups in a ring: detours share d with the direct paths of others: (1 + 2 / 2) d.
      const auto all = every(0, 1, 128);
      CHECK(rate(t, all) == Approx(8 * std::min(kPort, adaptive ? ring * 2 / 3 : ring / 3)));
      // Uniform traffic: minimal routing is as good.
      CHECK(pairs(t, all) == Approx(8 * std::min(kPort, port / leaving(16, 4))));
      CHECK(t.path(0, 32).hops == 7);
      CHECK(t.path(0, 16).hops == 6);
    }
  }
  CHECK(built(pods(Fabric::Kind::dragonfly, 1)).core(0) == -1);
  CHECK(built(pods(Fabric::Kind::dragonfly, 2)).core(0) >= 0);
  auto no = pods(Fabric::Kind::dragonfly, 1);
  no.fabric.nodes_per_pod = 0;
  CHECK(std::get<Infeasible>(Topology::build(no)).key == "cluster.fabric.nodes_per_pod");
}

TEST_CASE("torus: paths are dimension-ordered, rings close over whole dimensions") {
  const double link = 300e9 / 6;
  const auto t = built(chips({4, 6, 8}));
  CHECK(t.path(0, 1).hops == 1);
  CHECK(t.path(0, 3).hops == 1);          // round the x ring
  CHECK(t.path(0, 4 * 3).hops == 3);      // y
  CHECK(t.path(0, 2 + 4 * 5).hops == 3);  // x 2, y 1 back
  CHECK(t.path(0, 1).bandwidth.count() == link);
  CHECK(t.path(0, 1).kind == PathClass::nvlink);
  const auto ring = [&](const Topology& topology, const std::vector<int>& slots) {
    const auto s = topology.shape(slots);
    REQUIRE(s.torus);
    REQUIRE(s.domains == 1);
    return std::make_pair(s.torus_dimensions, s.nvlink.count() / link);
  };
  using Pair = std::pair<int, double>;
  CHECK(ring(t, every(0, 1, 4)) == Pair(1, 2));    // x whole
  CHECK(ring(t, every(0, 1, 24)) == Pair(2, 4));   // x and y
  CHECK(ring(t, every(0, 1, 192)) == Pair(3, 6));  // everything
  CHECK(ring(t, every(0, 1, 3)) == Pair(0, 1));    // a line
  CHECK(ring(t, every(0, 4, 6)) == Pair(1, 2));    // y
  CHECK(ring(t, every(0, 24, 8)) == Pair(1, 2));   // z
  CHECK(ring(t, every(0, 24, 4)) == Pair(0, 1));   // half of z: no wrap-around
  CHECK(ring(t, every(0, 1, 12)) == Pair(1, 3));   // x whole, half of y
  CHECK(ring(t, every(0, 8, 3)) == Pair(1, 1));    // every second of y shares its links
  const std::vector<int> corner = {0, 1, 4};
  CHECK(ring(t, corner) == Pair(0, 1));  // the members do not form a box
  CHECK(t.shape(every(0, 1, 192)).nodes == 192);

  const auto slice = built(chips({2, 4, 8}, 4));  // dimensions below 4 stay open
  CHECK(ring(slice, every(0, 1, 2)) == Pair(0, 1));
  CHECK(ring(slice, every(0, 1, 8)) == Pair(1, 3));
  CHECK(ring(built(chips({2, 4, 4})), every(0, 1, 2)) == Pair(1, 2));  // two cables

  const auto flat = built(chips({4, 4}));  // two dimensions: four links
  CHECK(flat.path(0, 1).bandwidth.count() == 300e9 / 4);

  auto hurt = chips({4, 6, 8});
  hurt.faults = {{"node1/gpu0", 0.5, false}};
  const auto h = built(hurt);
  CHECK(h.path(0, 2).bandwidth.count() == link / 2);  // passes chip 1
  CHECK(h.path(0, 3).bandwidth.count() == link);
  CHECK(h.shape(every(0, 1, 4)).nvlink.count() == link);
  CHECK(h.shape(every(4, 1, 4)).nvlink.count() == 2 * link);
  auto wrong = chips({4, 6, 8});
  wrong.nodes = 100;
  CHECK(std::get<Infeasible>(Topology::build(wrong)).key == "cluster.fabric.torus");
  wrong.fabric.torus.clear();
  wrong.nodes = 4096;
  CHECK(ring(built(wrong), every(0, 1, 256)) == Pair(2, 4));  // 16 x 16 x 16
}

TEST_CASE("DGX-1: six directed rings; groups by the links between them") {
  const auto c = dgx_1();
  const auto t = built(c);
  const auto nvlink = [](const Topology& topology, std::vector<int> slots) {
    const auto s = topology.shape(slots);
    return s.has_nvlink ? s.nvlink.count() : -s.nvlink.count();
  };
  CHECK(nvlink(t, every(0, 1, 8)) == 150e9);
  CHECK(nvlink(t, every(0, 1, 4)) == 100e9);
  CHECK(nvlink(t, {0, 1}) == 25e9);
  CHECK(nvlink(t, {0, 3}) == 50e9);
  CHECK(nvlink(t, {0, 1, 4, 5}) == 50e9);
  CHECK(nvlink(t, {0, 5}) == -15.75e9);  // not linked: PCIe
  CHECK(t.path(0, 3).bandwidth.count() == 50e9);
  CHECK(t.path(0, 3).hops == 1);
  CHECK(t.path(0, 5).kind == PathClass::pcie);
  // One degraded link slows the rings through it, and no other group.
  auto hurt = c;
  hurt.faults = {{"node0/gpu0-gpu3", 0.5, false}};
  const auto h = built(hurt);
  CHECK(h.path(0, 3).bandwidth.count() == 25e9);
  CHECK(nvlink(h, {0, 3}) == 25e9);
  CHECK(nvlink(h, every(0, 1, 8)) < 150e9);
  CHECK(nvlink(h, every(4, 1, 4)) == 100e9);
  CHECK(nvlink(h, {0, 1, 2}) == nvlink(t, {0, 1, 2}));
  hurt.faults = {{"node0/gpu0-gpu3", 1, true}};
  CHECK(nvlink(built(hurt), {0, 3}) == -15.75e9);
  CHECK(nvlink(built(hurt), every(0, 1, 8)) == 100e9);  // GPU 0 keeps four links
  hurt.faults = {{"node0/gpu0-gpu5", 0.5, false}};      // there is no such link
  CHECK(std::get<Infeasible>(Topology::build(hurt)).key == "cluster.faults");
}

TEST_CASE("four A100 with four links a pair, and bridged pairs") {
  auto c = dgx_a100(2);
  c.node.gpus = 4;
  c.node.intra = job::Node::Intra::nvlink_mesh;
  for (int a = 0; a < 4; ++a) {
    for (int b = 0; b < a; ++b) {
      c.node.nvlink_links.push_back({a, b, 4});
    }
  }
  const auto t = built(c);
  CHECK(t.shape(every(0, 1, 4)).nvlink.count() == 300e9);
  CHECK(t.shape(every(0, 1, 3)).nvlink.count() == 200e9);
  CHECK(t.shape(every(0, 1, 2)).nvlink.count() == 100e9);
  CHECK(t.path(4, 6).bandwidth.count() == 100e9);

  // Without a list, links are spread evenly, which gives the same.
  auto even = c;
  even.node.nvlink_links.clear();
  for (const int n : {2, 3, 4}) {
    CHECK(built(even).shape(every(0, 1, n)) == t.shape(every(0, 1, n)));
  }
  CHECK(built(even).path(4, 6).bandwidth == t.path(4, 6).bandwidth);

  c.node.gpus = 8;
  c.node.nvlink_links = {{0, 1, 12}, {2, 3, 12}, {4, 5, 12}, {6, 7, 12}};
  const auto bridged = built(c);
  CHECK(bridged.shape(every(0, 1, 2)).nvlink.count() == 300e9);
  CHECK(bridged.shape(every(0, 1, 2)).domains == 1);
  CHECK(bridged.shape(every(0, 1, 8)).domains == 4);
  CHECK(bridged.path(0, 1).kind == PathClass::nvlink);
  CHECK(bridged.path(1, 2).kind == PathClass::pcie);
}

TEST_CASE("a mesh of very many, very unequal links is still searched in no time") {
  auto c = dgx_a100(1);
  c.device.nvlink_generation = 0;
  c.node.gpus = 16;
  c.node.intra = job::Node::Intra::nvlink_mesh;
  for (int a = 0; a < 16; ++a) {
    for (int b = 0; b < a; ++b) {
      c.node.nvlink_links.push_back({a, b, 1024});
      c.faults.push_back({"node0/gpu" + std::to_string(a) + "-gpu" + std::to_string(b),
                          1.0 / (1 + 16 * a + b), false});
    }
  }
  const auto t = built(c);
  CHECK(t.shape(every(0, 15, 2)).nvlink.count() == Approx(300e9 / 15 / (1 + 16 * 15)));
  const double all = t.shape(every(0, 1, 16)).nvlink.count();
  CHECK(all > 0);
  CHECK(all < 300e9 / 16);
}

TEST_CASE("PCIe trees: the narrowest shared link below a ring in bus order") {
  auto c = dgx_a100(1);
  c.device.nvlink = Bandwidth(0);
  c.device.pcie = Bandwidth(26e9);
  c.node.intra = job::Node::Intra::pcie;
  c.node.sockets = 2;
  c.node.pcie_switches = 4;
  c.node.pcie_uplink = Bandwidth(24e9);
  c.node.inter_socket = Bandwidth(16e9);
  const auto t = built(c);
  CHECK(t.shape(every(0, 1, 2)).nvlink.count() == 26e9);  // one switch
  CHECK(t.shape(every(0, 1, 4)).nvlink.count() == 24e9);  // one socket
  CHECK(t.shape(every(0, 1, 8)).nvlink.count() == 16e9);
  CHECK(t.shape(every(0, 1, 8)).crosses_socket);
  CHECK_FALSE(t.shape(every(0, 1, 4)).crosses_socket);
  CHECK(t.shape(every(0, 1, 4)).crosses_pcie_switch);
  CHECK(t.path(0, 1).hops == 2);
  CHECK(t.path(0, 2).hops == 4);
  CHECK(t.path(0, 4).hops == 5);
  CHECK(t.path(0, 1).bandwidth.count() == 26e9);
  CHECK(t.path(0, 2).bandwidth.count() == 24e9);
  CHECK(t.path(0, 4).bandwidth.count() == 16e9);
  CHECK(t.path(0, 1).resources == std::vector<int>{0});
  CHECK(t.path(0, 2).resources == std::vector<int>{0, t.pcie_uplink(0)});
  CHECK(t.path(0, 4).resources == std::vector<int>{0, t.pcie_uplink(0), t.socket_link(0)});
  CHECK(t.pcie_uplink(0) == t.pcie_uplink(1));
  CHECK(t.pcie_uplink(1) != t.pcie_uplink(2));
  CHECK(t.socket_link(3) != t.socket_link(4));
  CHECK(t.resource_name(t.pcie_uplink(2)) == "node0/pcie1/up");
  CHECK(t.resource_name(t.socket_link(4)) == "node0/socket1/out");
  // Without peer-to-peer access, the data of every GPU cross the uplink of its switch.
  c.node.peer_to_peer = false;
  const auto host = built(c);
  CHECK(host.shape(every(0, 1, 2)).nvlink.count() == 12e9);
  CHECK(host.shape(every(0, 2, 2)).nvlink.count() == 24e9);
  CHECK(host.shape(every(0, 1, 8)).nvlink.count() == 12e9);
  c.node.pcie_switches = 0;  // each on its own root port: only the sockets' link is shared
  CHECK(built(c).shape(every(0, 1, 4)).nvlink.count() == 26e9);
  CHECK(built(c).shape(every(0, 1, 8)).nvlink.count() == 16e9);
  CHECK(built(c).path(0, 4).hops == 3);
}

TEST_CASE("ECMP: hash collisions take a share, by the seed; adaptive routing takes none") {
  auto c = sixteen(Fabric::Kind::fat_tree);
  const auto group = every(0, 1, 128);
  CHECK(built(c).shape(group).pairs_hash.share().mean == 1);
  c.fabric.routing = Fabric::Routing::ecmp;
  const auto t = built(c);
  const auto s = t.shape(group);
  CHECK(s.pairs_hash.share().low <= s.pairs_hash.share().mean);
  CHECK(s.pairs_hash.share().mean <= s.pairs_hash.share().high);
  CHECK(s.pairs_hash.share().high < 1);
  // a ring sends out of a leaf from only one of four domains
  CHECK(s.hash.share().mean > s.pairs_hash.share().mean);
  CHECK(t.shape(every(0, 1, 32)).pairs_hash.share().mean == 1);  // below one leaf
  CHECK(t.shape(group) == s);
  CHECK(built(c).shape(group) == s);
  const auto other = std::get<Topology>(Topology::build(c, 2)).shape(group);
  CHECK(other.pairs_hash.share().mean != s.pairs_hash.share().mean);
  CHECK(other.pairs_hash.share().mean == Approx(s.pairs_hash.share().mean).epsilon(0.05));
  // A single fat cable has no collisions; many thin flows average out.
  c.fabric.uplinks_per_leaf = 1;
  CHECK(built(c).shape(group).pairs_hash.share().low == 1);
  c.fabric.uplinks_per_leaf = 0;
  c.fabric.flows_per_nic = 64;
  CHECK(built(c).shape(group).pairs_hash.share().mean > s.pairs_hash.share().mean + 0.1);
}

TEST_CASE("ECMP in closed form: two flows and two links") {
  // Two nodes with one GPU each below different leaves, two cables above each leaf, and two flows
  // of half a port: on each of two leaves they share a cable of half a port with probability 1/2,
  // and then half the rate is left.
  auto c = dgx_a100(2);
  c.node.gpus = 1;
  c.node.nics = 1;
  c.fabric.kind = Fabric::Kind::fat_tree;
  c.fabric.nodes_per_leaf = 1;
  c.fabric.routing = Fabric::Routing::ecmp;
  c.fabric.uplinks_per_leaf = 2;
  const auto s = built(c).shape(every(0, 1, 2));
  CHECK(s.hash.share().mean == Approx(0.75 * 0.5 + 0.25).epsilon(0.03));
  CHECK(s.hash.share().low == 0.5);
  CHECK(s.hash.share().high == 1);
}

TEST_CASE("mixed devices: a group is as fast as its slowest member") {
  auto c = hgx_h100(4);
  job::Device slow = dgx_a100(1).device;
  slow.pcie = Bandwidth(20e9);  // slower than its NIC
  c.overrides = {{3, 1, slow}};
  const auto t = built(c);
  const auto fast = t.shape(every(0, 1, 24));
  const auto mixed = t.shape(every(0, 1, 32));
  CHECK(fast.nvlink.count() == 450e9);
  CHECK(fast.nic_per_domain.count() == 8 * 50e9);
  CHECK(fast.nvls);
  CHECK(mixed.nvlink.count() == 300e9);
  CHECK(mixed.nic_per_domain.count() == 8 * 20e9);
  CHECK(mixed.compute_capability == 8.0);
  CHECK_FALSE(mixed.nvls);
  CHECK(t.path(0, 24).bandwidth.count() == 20e9);
  CHECK(t.path(0, 16).bandwidth.count() == 50e9);
}

TEST_CASE("slices: a torus each, joined by their hosts' adapters") {
  auto c = chips({4, 4, 4});
  c.nodes *= 2;
  c.fabric.slices = 2;
  c.node.nics = 1;
  c.node.nic = Bandwidth(100e9 / 8);
  const auto t = built(c);
  const double link = 300e9 / 6;
  // Inside the second slice everything is as in the first.
  CHECK(t.path(64, 64 + 3).hops == 1);
  CHECK(t.path(64, 64 + 3).kind == PathClass::nvlink);
  CHECK(t.path(3, 64).kind == PathClass::network);
  CHECK(t.path(3, 64).bandwidth.count() == 100e9 / 8 * c.fabric.efficiency);
  const auto second = t.shape(every(64, 1, 64));
  CHECK(second.domains == 1);
  CHECK(second.nvlink.count() == 6 * link);
  const auto both = t.shape(every(0, 1, 128));
  CHECK(both.torus);
  CHECK(both.domains == 2);
  CHECK(both.ranks_per_domain == 64);
  CHECK(both.even);
  CHECK(both.nvlink.count() == 6 * link);
  CHECK(both.nics_per_domain == 64);
  const auto uneven = t.shape(every(0, 1, 68));  // a slice and one ring of the other
  CHECK_FALSE(uneven.even);
  CHECK(uneven.nvlink.count() == 2 * link);
  const auto data = t.shape(every(0, 64, 2));  // one chip of each
  CHECK(data.domains == 2);
  CHECK(data.ranks_per_domain == 1);
  auto wrong = c;
  wrong.fabric.slices = 3;
  CHECK(std::get<Infeasible>(Topology::build(wrong)).key == "cluster.fabric.slices");
  wrong = c;
  wrong.node.nics = 0;
  CHECK(std::get<Infeasible>(Topology::build(wrong)).key == "cluster.fabric");
}
