// Physical properties of a topology in prices: large messages at data sheet rates.
#include <filesystem>

#include "../unit/cluster/clusters.h"
#include "catch.hpp"
#include "stepcast/cost/collectives.h"

using namespace stepcast;
using namespace stepcast::test;
using cost::Collective;
using job::Fabric;

namespace {

// Seconds for the bytes of 1 GiB without calibration.
double fluid(const job::Cluster& c, Collective op, const std::vector<int>& group,
             const char* algorithm = nullptr) {
  cost::CurveTable curves;
  job::Nccl nccl;
  if (algorithm != nullptr) {
    nccl.algo = algorithm;
  }
  const cost::Collectives with(c, nccl, std::filesystem::temp_directory_path() / "none", {},
                               curves);
  return to_seconds(with.price(op, Bytes(1 << 30), built(c).shape(group)).fluid);
}
cost::CollectivePrice price(const job::Cluster& c, Collective op, const std::vector<int>& group) {
  cost::CurveTable curves;
  const cost::Collectives with(c, {}, std::filesystem::temp_directory_path() / "none", {}, curves);
  return with.price(op, Bytes(1 << 30), built(c).shape(group));
}

job::Cluster rails(double oversubscription, bool pxn = true) {
  auto c = dgx_a100(16);
  c.fabric.nodes_per_leaf = 8;
  c.fabric.oversubscription = oversubscription;
  c.fabric.pxn = pxn;
  return c;
}

}  // namespace

TEST_CASE("rails: all-reduce ignores the spine, all-to-all needs it without PXN") {
  const auto unit = every(0, 1, 64);
  for (const bool pxn : {true, false}) {
    CHECK(fluid(rails(4, pxn), Collective::all_reduce, unit) ==
          fluid(rails(1, pxn), Collective::all_reduce, unit));
    CHECK(price(rails(4, pxn), Collective::all_reduce, unit).spine.count() == 0);
    CHECK((price(rails(4, pxn), Collective::all_to_all, unit).spine.count() > 0) == !pxn);
  }
  CHECK(fluid(rails(4), Collective::all_to_all, unit) ==
        fluid(rails(1), Collective::all_to_all, unit));
  // 7 of 8 pairs over a quarter of the ports.
  const double slower = fluid(rails(4, false), Collective::all_to_all, unit) /
                        fluid(rails(1, false), Collective::all_to_all, unit);
  CHECK(slower > 2);
  CHECK(slower <= 4 * 7.0 / 8 * 1.001);
  // Across units all-to-all gets slower. Rings get slower only if the uplinks carry less than one
  // port, since one of eight nodes sends the ring onward.
  const auto all = every(0, 1, 128);
  CHECK(fluid(rails(4), Collective::all_to_all, all) >
        1.5 * fluid(rails(1), Collective::all_to_all, all));
  CHECK(fluid(rails(4), Collective::all_reduce, all) ==
        fluid(rails(1), Collective::all_reduce, all));
  CHECK(fluid(rails(32), Collective::all_reduce, all) >
        3 * fluid(rails(1), Collective::all_reduce, all));
}

TEST_CASE("one degraded link slows exactly the groups that use it") {
  const auto whole = rails(1);
  auto hurt = whole;
  hurt.faults = {{"node3/nic2", 0.5, false}};
  for (int rail = 0; rail < 8; ++rail) {
    const auto group = every(rail, 8, 16);
    const double slower =
        fluid(hurt, Collective::all_reduce, group) / fluid(whole, Collective::all_reduce, group);
    CHECK(slower == (rail == 2 ? Approx(2).epsilon(0.05) : Approx(1).epsilon(1e-12)));
  }
  CHECK(fluid(hurt, Collective::all_reduce, every(24, 1, 8)) ==
        fluid(whole, Collective::all_reduce, every(24, 1, 8)));
  hurt.faults = {{"rail5", 0.5, false}};
  CHECK(fluid(hurt, Collective::all_reduce, every(5, 8, 16)) ==
        Approx(2 * fluid(whole, Collective::all_reduce, every(5, 8, 16))).epsilon(0.05));
  CHECK(fluid(hurt, Collective::all_reduce, every(4, 8, 16)) ==
        fluid(whole, Collective::all_reduce, every(4, 8, 16)));
}

TEST_CASE("core links, global links and hashing slow what leaves the pod") {
  for (const auto kind : {Fabric::Kind::fat_tree, Fabric::Kind::dragonfly}) {
    auto c = dgx_a100(16);
    c.fabric.kind = kind;
    c.fabric.nodes_per_leaf = 2;
    c.fabric.nodes_per_pod = 4;
    auto thin = c;
    thin.fabric.core_oversubscription = 16;
    const auto pod = every(0, 1, 32);
    const auto all = every(0, 1, 128);
    for (const auto op : {Collective::all_reduce, Collective::all_gather, Collective::all_to_all}) {
      CHECK(fluid(thin, op, pod) == fluid(c, op, pod));
      CHECK(fluid(thin, op, all) > 2 * fluid(c, op, all));
    }
    auto hashed = c;
    hashed.fabric.routing = Fabric::Routing::ecmp;
    CHECK(fluid(hashed, Collective::all_to_all, every(0, 1, 16)) ==
          fluid(c, Collective::all_to_all, every(0, 1, 16)));
    CHECK(fluid(hashed, Collective::all_to_all, all) > 1.2 * fluid(c, Collective::all_to_all, all));
  }
}

TEST_CASE("torus: whole dimensions add their rings' rates") {
  auto c = dgx_a100(4 * 4 * 4);
  c.fabric.kind = Fabric::Kind::torus;
  c.fabric.torus = {4, 4, 4};
  c.node.gpus = 1;
  c.node.nics = 0;
  c.device.compute_capability = 0;
  const auto rate = [&](const std::vector<int>& group) {
    const double n = static_cast<double>(group.size());
    return 2 * (n - 1) / n * (1 << 30) / fluid(c, Collective::all_reduce, group);
  };
  const double one = rate(every(0, 1, 4));
  CHECK(rate(every(0, 1, 16)) / one == Approx(2).epsilon(0.1));
  CHECK(rate(every(0, 1, 64)) / one == Approx(3).epsilon(0.1));
  // a line cannot be traversed in both directions
  CHECK(rate(every(0, 1, 3)) / one == Approx(0.5).epsilon(0.1));
}

TEST_CASE("torus of two dimensions: all links of a chip carry (n-1)/n of what is gathered") {
  auto c = dgx_a100(256);
  c.fabric.kind = Fabric::Kind::torus;
  c.fabric.torus_dimensions = 2;  // 16 x 16
  c.fabric.torus_block = 16;
  c.node.gpus = 1;
  c.node.nics = 0;
  c.device.compute_capability = 0;
  c.device.vendor = hardware::Vendor::google;
  const double links = c.device.nvlink.count();  // of a chip, all four together
  const auto gathered = [&](const std::vector<int>& group, double rate) {
    const auto n = static_cast<double>(group.size());
    CHECK(fluid(c, Collective::all_gather, group) == Approx((n - 1) / n * (1 << 30) / rate));
  };
  gathered(every(0, 1, 256), links);
  gathered(every(0, 1, 16), links / 2);  // along one axis, round its ring
  gathered(every(0, 16, 16), links / 2);
  gathered(every(0, 1, 8), links / 4);  // half of an axis is a line
  // Slices of fewer chips are as square as they divide, and sides below a block are lines.
  c.nodes = 32;
  gathered(every(0, 1, 32), links / 2);
}

TEST_CASE("PCIe trees and NVLink meshes: a wider group, a narrower link") {
  auto c = dgx_a100(1);
  c.device.nvlink = Bandwidth(0);
  c.node.intra = job::Node::Intra::pcie;
  c.node.sockets = 2;
  c.node.inter_socket = Bandwidth(c.device.pcie.count() / 2);
  const auto bus = [&](int n) {
    return 2 * (n - 1.0) / n / fluid(c, Collective::all_reduce, every(0, 1, n), "ring");
  };
  CHECK(bus(4) == Approx(bus(2)).epsilon(0.02));
  CHECK(bus(8) == Approx(bus(4) / 2).epsilon(0.02));
}

TEST_CASE(
    "slices of a torus: reduce inside, exchange each chip's part between slices, gather inside") {
  auto c = dgx_a100(4 * 64);  // four slices of 4 x 4 x 4 chips, a host for each chip
  c.fabric.kind = Fabric::Kind::torus;
  c.fabric.torus = {4, 4, 4};
  c.fabric.slices = 4;
  c.node.gpus = 1;
  c.node.nics = 1;
  c.device.compute_capability = 0;
  c.device.vendor = hardware::Vendor::google;
  const double bytes = 1 << 30;
  const double links = c.device.nvlink.count();
  const double nic = c.node.nic.count() * c.fabric.efficiency;
  const auto all = every(0, 1, 256);
  const double inside = bytes * 63 / 64 / links;
  const double between = bytes * 3 / 4 / (64 * nic);
  CHECK(fluid(c, Collective::all_reduce, all) == Approx(2 * (inside + between)));
  CHECK(fluid(c, Collective::all_gather, all) == Approx(inside + between));
  CHECK(fluid(c, Collective::reduce_scatter, all) == Approx(inside + between));
  // One chip of each slice: the network alone. One slice: the torus alone.
  CHECK(fluid(c, Collective::all_reduce, every(5, 64, 4)) == Approx(2 * bytes * 3 / 4 / nic));
  CHECK(fluid(c, Collective::all_gather, every(64, 1, 64)) == Approx(inside));
  // All-to-all: three quarters of what each chip has go through its own host's adapter.
  CHECK(fluid(c, Collective::all_to_all, all) > bytes * 3 / 4 / nic);
  // A faster network or fewer slices never make it slower.
  auto fast = c;
  fast.node.nic = 2 * c.node.nic;
  CHECK(fluid(fast, Collective::all_reduce, all) < fluid(c, Collective::all_reduce, all));
  auto whole = c;
  whole.fabric.slices = 1;
  whole.fabric.torus = {4, 4, 16};
  CHECK(fluid(whole, Collective::all_reduce, all) < fluid(c, Collective::all_reduce, all));
}
