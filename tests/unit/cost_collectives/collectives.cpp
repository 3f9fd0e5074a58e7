#include "stepcast/cost/collectives.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <thread>

#include "../cluster/clusters.h"
#include "catch.hpp"
#include "cost/collective/line.h"
#include "stepcast/text/document.h"
#include "support/no_files.h"

using namespace stepcast;
using namespace stepcast::cost;
using namespace stepcast::test;

namespace {
const std::filesystem::path kFiles = std::filesystem::path(STEPCAST_SOURCE_DIR) / "calibration";
constexpr Collective kAll[] = {Collective::all_reduce, Collective::all_gather,
                               Collective::reduce_scatter, Collective::all_to_all,
                               Collective::broadcast};

Collectives made(const job::Cluster& c, const std::filesystem::path& files, job::Nccl forced = {}) {
  CurveTable curves;
  return {c, forced, files, {}, curves};
}
double total(const CollectivePrice& p) { return to_seconds(p.latency + p.fluid); }
}  // namespace

TEST_CASE("A ring over nodes without NVLink is no faster than one within a node") {
  auto pcie = dgx_a100(2);
  pcie.node.intra = job::Node::Intra::pcie;
  pcie.node.name = pcie.name = "of-ones-own";
  pcie.device.nvlink = Bandwidth(0);
  pcie.device.name = "l40s";
  const auto t = built(pcie);
  const auto prices = made(pcie, kFiles);
  for (const auto op :
       {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter}) {
    const auto rate = [&](int ranks) {  // busbw over what all operations share
      return (1 - 1.0 / ranks) /
             total(prices.price(op, Bytes(1 << 30), t.shape(every(0, 1, ranks))));
    };
    CHECK(rate(16) <= rate(8) * (1 + 1e-8));  // times are whole picoseconds
  }
}

TEST_CASE("a device that states no compute capability is of no generation") {
  auto c = dgx_a100(1);
  c.device.name = "acme";
  c.device.compute_capability = 0;
  const auto t = built(c);
  CurveTable curves;
  const Collectives prices(c, {}, kFiles, {}, curves);
  const auto p = prices.price(Collective::all_gather, Bytes(1 << 30), t.shape(every(0, 1, 8)));
  CHECK(curves.curves()[p.curve].file == "nccl/nvlink.yaml");
}

TEST_CASE("a group of one costs nothing") {
  const auto c = dgx_a100(1);
  const auto t = built(c);
  for (const auto op : kAll) {
    const auto p = made(c, kFiles).price(op, Bytes(1 << 30), t.shape(every(0, 1, 1)));
    CHECK(p.latency.count() == 0);
    CHECK(p.fluid.count() == 0);
    CHECK(p.nvlink.count() == 0);
    CHECK(p.sms == 0);
  }
  CHECK(total(made(c, kFiles).point_to_point(Bytes(1 << 20), t.path(2, 2))) == 0);
}

TEST_CASE("time rises with size and never jumps") {
  struct Case {
    job::Cluster cluster;
    std::vector<int> slots;
  };
  auto oversubscribed = dgx_a100(64);
  oversubscribed.fabric.oversubscription = 2;
  auto pcie = dgx_a100(1);
  pcie.node.intra = job::Node::Intra::pcie;
  pcie.device.nvlink = Bandwidth(0);
  pcie.device.name = "l40s";
  const std::vector<Case> cases = {{dgx_a100(1), every(0, 1, 2)},
                                   {dgx_a100(1), every(0, 1, 8)},
                                   {dgx_a100(16), every(0, 1, 128)},
                                   {dgx_a100(64), every(5, 8, 64)},
                                   {oversubscribed, every(0, 8, 64)},
                                   {hgx_h100(1), every(0, 1, 8)},
                                   {hgx_h100(2), every(0, 1, 16)},
                                   {hgx_h100(32), every(0, 4, 64)},
                                   {nvl72(18), every(0, 1, 72)},
                                   {nvl72(36), every(0, 1, 144)},
                                   {pcie, every(0, 1, 2)}};
  for (const auto& files : {kFiles, kNoFiles}) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const auto t = built(cases[i].cluster);
      const auto with = made(cases[i].cluster, files);
      const auto shape = t.shape(cases[i].slots);
      for (const auto op : kAll) {
        double before = 0;
        for (double size = 1; size < 4e10; size *= 1.01) {
          const double now = total(with.price(op, Bytes(static_cast<std::int64_t>(size)), shape));
          INFO("case " << i << ", " << to_string(op) << ", " << size << " bytes");
          REQUIRE(now >= before - 1e-12);
          // Half a step of a tree's correction (from log2 0.4 to 0.5 in an octave) is the steepest
          // possible rise.
          if (size > 200) {
            REQUIRE(now <= before * 1.035 + 1e-12);
          }
          before = now;
        }
      }
    }
  }
}

TEST_CASE("a send rises with size and costs more over the network") {
  const auto c = hgx_h100(2);
  const auto t = built(c);
  for (const auto& files : {kFiles, kNoFiles}) {
    const auto with = made(c, files);
    double before = 0;
    for (double size = 1; size < 1e10; size *= 1.02) {
      const Bytes bytes(static_cast<std::int64_t>(size));
      const auto near = with.point_to_point(bytes, t.path(0, 5));
      const auto far = with.point_to_point(bytes, t.path(0, 8));
      REQUIRE(total(near) >= before);
      REQUIRE(total(far) > total(near));
      before = total(near);
    }
    const auto big = with.point_to_point(Bytes(1 << 30), t.path(0, 8));
    CHECK(big.algorithm == Algorithm::direct);
    CHECK(big.nvlink.count() == 0);
    CHECK(big.nic.count() > 0);
    CHECK(big.sms == 4);  // ceil(50 / 14) channels, a power of two
    CHECK(with.point_to_point(Bytes(1000), t.path(0, 8)).sms == 1);
  }
}

TEST_CASE("a message takes the thread blocks that its communicator leaves it") {
  const auto t = built(hgx_h100(2));
  const auto with = made(hgx_h100(2), kFiles);
  const auto blocks = [&](int to, const PeerGroup& of, std::int64_t bytes = 10 << 20) {
    return with.point_to_point(Bytes(bytes), t.path(0, to), of).sms;
  };
  // Of 32 channels, halved until all ranks have one of each other: 16 of two ranks, 4 of eight.
  CHECK(blocks(5, {2, {}}) == 16);
  CHECK(blocks(5, {4, {}}) == 8);
  CHECK(blocks(5, {8, {}}) == 4);
  CHECK(blocks(5, {64, {}}) == 1);
  // Parts beyond 16 MiB take more of them, up to four messages in a channel.
  CHECK(blocks(5, {8, {}}, 65 << 20) == 8);
  CHECK(blocks(5, {8, {}}, 1 << 30) == 16);
  // Stages on several nodes have no more channels among GPUs of one node than over the network.
  CHECK(blocks(5, {8, Bandwidth(50e9)}) == 4);
  CHECK(blocks(5, {4, Bandwidth(25e9)}) == 2);
  // Over the network parts beyond 4 MiB do.
  CHECK(blocks(8, {16, {}}, 8 << 20) == 2);
  CHECK(blocks(8, {16, {}}) == 4);
}

TEST_CASE("a thin link slows the network part in proportion") {
  auto c = dgx_a100(8);
  const auto healthy = built(c);
  c.faults = {{"node3/nic0", 0.5}};
  const auto broken = built(c);
  for (const auto& files : {kFiles, kNoFiles}) {
    const auto with = made(c, files, {"ring", "simple"});
    const Bytes big(std::int64_t{1} << 36);  // where efficiency hardly depends on size
    for (const auto op : kAll) {
      const auto before = with.price(op, big, healthy.shape(every(0, 8, 8)));
      const auto after = with.price(op, big, broken.shape(every(0, 8, 8)));
      CHECK(to_seconds(after.fluid) / to_seconds(before.fluid) == Approx(2.0).epsilon(0.02));
      const auto other = with.price(op, big, broken.shape(every(1, 8, 8)));
      CHECK(other.fluid == before.fluid);
    }
  }
}

TEST_CASE("a loaded GPU port slows its domain") {
  auto c = dgx_a100(1);
  const auto healthy = built(c);
  c.faults = {{"node0/gpu3", 0.5}};
  const auto broken = built(c);
  const auto with = made(c, kFiles, {"ring", "simple"});
  const Bytes big(std::int64_t{1} << 36);
  const auto before = with.price(Collective::all_reduce, big, healthy.shape(every(0, 1, 8)));
  const auto after = with.price(Collective::all_reduce, big, broken.shape(every(0, 1, 8)));
  CHECK(to_seconds(after.fluid) / to_seconds(before.fluid) == Approx(2.0).epsilon(0.02));
}

TEST_CASE("oversubscription slows groups that cross it, and says what crosses") {
  auto c = dgx_a100(64);
  const auto free = built(c);
  c.fabric.oversubscription = 4;
  const auto tight = built(c);
  const auto with = made(c, kNoFiles, {"ring", "simple"});
  const Bytes big(1 << 30);
  const auto near = every(0, 8, 32);
  const auto far = every(0, 8, 64);
  const auto op = Collective::all_reduce;
  CHECK(with.price(op, big, tight.shape(near)).fluid ==
        with.price(op, big, free.shape(near)).fluid);
  CHECK(with.price(op, big, tight.shape(near)).spine.count() == 0);
  const auto slower = [&](const cluster::Topology& than, Collective what) {
    return to_seconds(with.price(what, big, than.shape(far)).fluid) /
           to_seconds(with.price(what, big, free.shape(far)).fluid);
  };
  // One of 32 nodes below a leaf sends the ring onward. In an all-to-all every node sends to the 32
  // of 63 others below the other leaf.
  CHECK(slower(tight, op) == 1);
  CHECK(slower(tight, Collective::all_to_all) == Approx(4.0 * 32 / 63));
  CHECK(with.price(op, big, tight.shape(far)).spine.count() > 0);
  c.fabric.oversubscription = 128;  // a quarter of a port
  CHECK(slower(built(c), op) == Approx(4.0));
}

TEST_CASE("an operation never asks more of a link, alone, than the link has") {
  for (const auto& c : {dgx_a100(32), hgx_h100(32), nvl72(36)}) {
    auto less = c;
    less.fabric.efficiency = 0.8;
    for (const auto& cluster : {c, less}) {
      const auto t = built(cluster);
      for (const auto& files : {kFiles, kNoFiles}) {
        const auto with = made(cluster, files);
        for (const auto op : kAll) {
          for (const auto& slots : {every(0, 1, 4), every(0, 4, 32), every(0, 1, 128)}) {
            const auto shape = t.shape(slots);
            for (std::int64_t size = 1000; size < 20'000'000'000; size *= 7) {
              const auto p = with.price(op, Bytes(size), shape);
              const double s = to_seconds(p.fluid) * 1.000001 + 1e-12;
              CHECK(static_cast<double>(p.nvlink.count()) <= s * shape.nvlink.count() + 1);
              if (shape.nics_per_domain > 0) {
                CHECK(static_cast<double>(p.nic.count()) <=
                      s * shape.nic_per_domain.count() / shape.nics_per_domain + 1);
              }
            }
          }
        }
      }
    }
  }
}

TEST_CASE("NCCL's choice of algorithm and protocol") {
  const auto a100 = dgx_a100(4);
  const auto h100 = hgx_h100(4);
  const auto ta = built(a100);
  const auto th = built(h100);
  const auto choice = [](const Collectives& with, Collective op, std::int64_t bytes,
                         const cluster::GroupShape& g) {
    const auto p = with.price(op, Bytes(bytes), g);
    return std::string(to_string(p.algorithm)) + " " + to_string(p.protocol);
  };
  const auto a = made(a100, kNoFiles);
  const auto h = made(h100, kNoFiles);
  const auto one_a = ta.shape(every(0, 1, 8));
  const auto one_h = th.shape(every(0, 1, 8));
  CHECK(choice(a, Collective::all_reduce, 1 << 30, one_a) == "ring simple");
  CHECK(choice(h, Collective::all_reduce, 1 << 30, one_h) == "nvls simple");
  CHECK(choice(a, Collective::all_reduce, 1024, one_a).substr(5) == "ll");
  CHECK(choice(a, Collective::all_gather, 1 << 30, one_a) == "ring simple");
  CHECK(choice(a, Collective::all_reduce, 1024, ta.shape(every(0, 8, 4))) == "tree ll");
  CHECK(choice(a, Collective::all_to_all, 1 << 20, one_a) == "pairwise simple");
  // Two nodes exchange the sums of NVLink SHARP in both directions at once: measured 339 GB/s of
  // bus bandwidth on 8 NICs of 25 GB/s (calibration/nccl: gcp-a3-mega), above the 200 GB/s that a
  // ring can reach.
  CHECK(choice(h, Collective::all_reduce, 1 << 30, th.shape(every(0, 1, 16))) == "nvlstree simple");
  CHECK(choice(made(h100, kNoFiles, {"ring", "ll128"}), Collective::all_reduce, 1 << 30, one_h) ==
        "ring ll128");
  CHECK(choice(made(h100, kNoFiles, {"tree", std::nullopt}), Collective::all_reduce, 1 << 30, one_h)
            .substr(0, 4) == "tree");
  // A forced algorithm that an operation does not have falls back.
  CHECK(choice(made(h100, kNoFiles, {"tree", "simple"}), Collective::all_gather, 1 << 30, one_h) !=
        "tree simple");
}

TEST_CASE("channels as NCCL reports them for these machines") {
  // "24 coll channels" on one DGX A100 and on one HGX H100; 16 on several of them.
  CHECK(situate(built(dgx_a100(1)).shape(every(0, 1, 8))).channels == 24);
  CHECK(situate(built(hgx_h100(1)).shape(every(0, 1, 8))).channels == 24);
  CHECK(situate(built(dgx_a100(4)).shape(every(0, 1, 32))).channels == 16);
  CHECK(situate(built(hgx_h100(4)).shape(every(0, 1, 32))).channels == 16);
  const auto with = made(hgx_h100(1), kNoFiles);
  const auto shape = built(hgx_h100(1)).shape(every(0, 1, 8));
  CHECK(with.price(Collective::all_gather, Bytes(64), shape).sms == 1);
  CHECK(with.price(Collective::all_gather, Bytes(1 << 30), shape).sms == 24);
  CHECK(with.price(Collective::all_reduce, Bytes(1 << 30), shape).sms == 16);  // NVLS
}

TEST_CASE("curves carry file, provenance and residual; without files they say so") {
  CurveTable curves;
  const auto c = dgx_a100(2);
  const auto t = built(c);
  const Collectives with(c, {}, kFiles, {}, curves);
  const auto near = with.price(Collective::all_reduce, Bytes(1 << 20), t.shape(every(0, 1, 8)));
  const auto far = with.price(Collective::all_reduce, Bytes(1 << 20), t.shape(every(0, 8, 2)));
  CHECK(curves.curves()[near.curve].file == "nccl/a100-sxm.yaml");
  CHECK(curves.curves()[far.curve].file == "nccl/dgx-a100-hdr.yaml");
  CHECK(near.curve != near.latency_curve);
  for (const auto id : {near.curve, near.latency_curve, far.curve, far.latency_curve}) {
    CHECK(curves.curves()[id].residual > 0);
    CHECK_FALSE(curves.curves()[id].provenance.empty());
  }
  CurveTable blind;
  const Collectives without(c, {}, kNoFiles, {}, blind);
  const auto p = without.price(Collective::all_reduce, Bytes(1 << 20), t.shape(every(0, 8, 2)));
  CHECK(blind.curves()[p.curve].file == "datasheet");
  CHECK(blind.curves()[p.curve].residual > curves.curves()[far.curve].residual);
  // A named file applies to its own scope; the other scope keeps the file that fits best.
  CurveTable some;
  const Collectives named(c, {}, kFiles, {"nccl/h200-sxm.yaml"}, some);
  const auto q = named.price(Collective::all_reduce, Bytes(1 << 20), t.shape(every(0, 1, 8)));
  CHECK(some.curves()[q.curve].file == "nccl/h200-sxm.yaml");
  const auto r = named.price(Collective::all_reduce, Bytes(1 << 20), t.shape(every(0, 8, 2)));
  CHECK(some.curves()[r.curve].file == "nccl/dgx-a100-hdr.yaml");
}

TEST_CASE("a cluster of another name takes its fabric's curves, else its kind's") {
  const auto file = [](const job::Cluster& c, const std::vector<int>& slots) {
    CurveTable curves;
    const Collectives with(c, {}, kFiles, {}, curves);
    return curves
        .curves()[with.price(Collective::all_reduce, Bytes(1 << 20), built(c).shape(slots)).curve]
        .file;
  };
  auto c = hgx_h100(2);
  c.name = c.node.name = "my-own";
  c.fabric.name = "ib-ndr-rail";
  CHECK(file(c, every(0, 8, 2)) == "nccl/hgx-h100-ndr.yaml");
  // Other NICs scale the curves of the same devices; for other devices the kind's are nearer.
  c.node.nic = Bandwidth(3e9);
  CHECK(file(c, every(0, 8, 2)) == "nccl/hgx-h100-ndr.yaml");
  c.device.name = "my-own";
  CHECK(file(c, every(0, 8, 2)) == "nccl/network-ib.yaml");
  c.fabric.name = "my-own";
  CHECK(file(c, every(0, 8, 2)) == "nccl/network.yaml");
  auto p5 = hgx_h100(2);
  p5.node.name = p5.name = "aws-p5";
  p5.fabric.name = "efa";
  CHECK(file(p5, every(0, 8, 2)) == "nccl/network-efa.yaml");
}

TEST_CASE("a device without logs takes its generation's curves, else its class's") {
  const auto file = [](const job::Cluster& c) {
    CurveTable curves;
    const Collectives with(c, {}, kFiles, {}, curves);
    const auto p =
        with.price(Collective::all_reduce, Bytes(1 << 20), built(c).shape(every(0, 1, 8)));
    return curves.curves()[p.curve].file;
  };
  auto c = hgx_h100(1);
  CHECK(file(c) == "nccl/h100-sxm.yaml");
  c.device.name = "h800-sxm";
  c.device.nvlink = Bandwidth(200e9);
  CHECK(file(c) == "nccl/nvlink-hopper.yaml");
  c.device.compute_capability = 12.0;
  CHECK(file(c) == "nccl/nvlink-blackwell.yaml");
  c.device.compute_capability = 13.0;
  CHECK(file(c) == "nccl/nvlink-blackwell.yaml");
  c.node.intra = job::Node::Intra::pcie;
  CHECK(file(c) == "nccl/pcie.yaml");
}

TEST_CASE("an operation without logs of a machine takes its kind's") {
  // There is no log of a broadcast on GH200; two logged all-reduces of one network are at 400 Gb/s.
  auto c = hgx_h100(2);
  const auto t = built(c);
  CurveTable curves;
  const Collectives with(c, {}, kFiles, {}, curves);
  const auto p = with.price(Collective::broadcast, Bytes(1 << 20), t.shape(every(0, 1, 8)));
  CHECK(curves.curves()[p.curve].file == "nccl/h100-sxm.yaml");
  CHECK(curves.curves()[p.curve].residual > 0.02);
}

TEST_CASE("construction is safe from several threads") {
  std::vector<std::thread> threads;
  std::vector<double> seen(8);
  const auto c = dgx_a100(2);
  const auto shape = built(c).shape(every(0, 1, 16));
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      seen[i] = total(made(c, kFiles).price(Collective::all_reduce, Bytes(1 << 24), shape));
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  CHECK(std::all_of(seen.begin(), seen.end(), [&](double s) { return s == seen[0]; }));
}

// The committed logs through the public interface, as in a user's forecast. From 1 MiB on the
// median error of each stays within the bound; -s prints it.
TEST_CASE("prices agree with the logs they were fitted to") {
  struct Row {
    const char* system;
    job::Cluster cluster;
    const char* collective;
    Collective op;
    int nodes;
    int per_node;
    double bound;
  };
  auto alps = hgx_h100(128);
  alps.name = alps.node.name = "alps-cscs";
  alps.device.name = "gh200";
  alps.node.gpus = alps.node.nics = 4;
  alps.node.nic = Bandwidth(25e9);
  alps.node.nvls = false;
  const std::vector<Row> rows = {
      {"a100-sxm", dgx_a100(1), "all_reduce", Collective::all_reduce, 1, 8, 0.08},
      {"a100-sxm", dgx_a100(1), "all_reduce", Collective::all_reduce, 1, 2, 0.08},
      {"a100-sxm", dgx_a100(1), "all_gather", Collective::all_gather, 1, 8, 0.08},
      {"a100-sxm", dgx_a100(1), "reduce_scatter", Collective::reduce_scatter, 1, 8, 0.08},
      {"h100-sxm", hgx_h100(1), "all_reduce", Collective::all_reduce, 1, 8, 0.05},
      {"h100-sxm", hgx_h100(1), "all_gather", Collective::all_gather, 1, 4, 0.05},
      {"h100-sxm", hgx_h100(1), "alltoall", Collective::all_to_all, 1, 8, 0.05},
      {"dgx-a100-hdr", dgx_a100(2), "all_reduce", Collective::all_reduce, 2, 8, 0.05},
      {"dgx-a100-hdr", dgx_a100(2), "alltoall", Collective::all_to_all, 2, 8, 0.05},
      {"hgx-h100-ndr", hgx_h100(10), "all_reduce", Collective::all_reduce, 10, 1, 0.05},
      {"hgx-h100-ndr", hgx_h100(10), "reduce_scatter", Collective::reduce_scatter, 10, 4, 0.05},
      {"gb200-nvl72", nvl72(36), "all_reduce", Collective::all_reduce, 36, 4, 0.05},
      {"alps-slingshot", alps, "all_reduce", Collective::all_reduce, 128, 4, 0.09},
  };
  for (const auto& row : rows) {
    const auto t = built(row.cluster);
    std::vector<int> slots;
    for (int node = 0; node < row.nodes; ++node) {
      for (int g = 0; g < row.per_node; ++g) {
        slots.push_back(node * row.cluster.node.gpus + g);
      }
    }
    const auto shape = t.shape(slots);
    const auto with = made(row.cluster, kFiles);
    const auto table =
        text::read_csv(kFiles / "nccl" / "data" / (std::string(row.system) + ".csv"));
    std::vector<double> small;
    std::vector<double> large;
    for (const auto& r : table.rows) {
      if (r.at(1) != std::to_string(row.nodes) || r.at(2) != std::to_string(row.per_node) ||
          r.at(3) != row.collective) {
        continue;
      }
      const auto bytes = std::stoll(r.at(4));
      const double error = std::abs(
          total(with.price(row.op, Bytes(bytes), shape)) / (std::stod(r.at(5)) * 1e-6) - 1);
      (bytes < (1 << 20) ? small : large).push_back(error);
    }
    REQUIRE(large.size() >= 4);
    const auto median = [](std::vector<double>& v) {
      std::sort(v.begin(), v.end());
      return v.empty() ? 0.0 : v[v.size() / 2];
    };
    INFO(row.system << " " << row.collective << " " << row.nodes << "x" << row.per_node
                    << ": median error below 1 MiB " << 100 * median(small) << " % of "
                    << small.size() << ", from 1 MiB " << 100 * median(large) << " % of "
                    << large.size());
    CHECK(median(large) <= row.bound);
  }
}

// Published: 47.7 GB/s on two and 312.9 GB/s on eight MI300X at 4 GiB (stas00/ml-engineering,
// network README); 304 GB/s is what AMD asks of a healthy node (ROCm's acceptance tests of
// rccl-tests, from memory). No node can pass RCCL's 48 GB/s a link.
TEST_CASE("MI300X: bus bandwidths at large sizes are those that were published") {
  job::Cluster c = dgx_a100(1);
  c.device.name = "mi300x";
  c.device.compute_capability = 0;
  c.device.vendor = hardware::Vendor::amd;
  c.device.nvlink = Bandwidth(448e9);
  c.node.intra = job::Node::Intra::nvlink_mesh;
  const auto t = built(c);
  const auto bus = [&](const job::Cluster& cluster, int n) {
    const double bytes = 4.0 * (1LL << 30);
    const auto p = made(cluster, kFiles)
                       .price(Collective::all_reduce, Bytes(4LL << 30), t.shape(every(0, 1, n)));
    return 2 * (n - 1.0) / n * bytes / total(p) / 1e9;
  };
  CHECK(bus(c, 2) == Approx(47.7).epsilon(0.01));
  CHECK(bus(c, 8) == Approx(312.9).epsilon(0.01));
  CHECK(bus(c, 8) > 304);
  // A device of AMD's without a file of its own has RCCL's lines, and no curve of NVIDIA's.
  job::Cluster unknown = c;
  unknown.device.name = "made-up";
  CurveTable curves;
  const Collectives collectives(unknown, {}, kFiles, {}, curves);
  const auto p =
      collectives.price(Collective::all_reduce, Bytes(4LL << 30), t.shape(every(0, 1, 8)));
  CHECK(curves.curves()[p.curve].file == "datasheet");
  CHECK(bus(unknown, 8) == Approx(7 * 48).epsilon(0.01));
}
