// Physical limits of collectives on the clusters of configs/: the bottleneck determines the time,
// and nothing exceeds a line rate.
#include <algorithm>
#include <cmath>
#include <random>

#include "catch.hpp"
#include "collectives.h"
#include "stepcast/cluster/topology.h"
#include "stepcast/config/config.h"
#include "stepcast/cost/collectives.h"
#include "stepcast/input/input.h"
#include "stepcast/text/document.h"

using namespace stepcast;
using namespace stepcast::cost;
using test::forced;
using test::kAll;

namespace {

constexpr std::int64_t kMiB = 1 << 20;

job::Cluster cluster_of(const std::string& name, int nodes) {
  return input::network(name, nodes).cluster;
}

cluster::Topology built(const job::Cluster& c) {
  auto made = cluster::Topology::build(c);
  if (const auto* no = std::get_if<Infeasible>(&made)) {
    throw std::runtime_error(no->key + ": " + no->reason);
  }
  return std::get<cluster::Topology>(std::move(made));
}

struct Machine {
  job::Cluster cluster;
  cluster::Topology topology;
  CurveTable curves;
  Collectives collectives;

  explicit Machine(const job::Cluster& c, const job::Nccl& forced = {})
      : cluster(c),
        topology(built(c)),
        collectives(c, forced, text::data_directory() / "calibration", {}, curves) {}

  double time(Collective op, std::int64_t bytes, const std::vector<int>& slots) const {
    const auto p = collectives.price(op, Bytes(bytes), topology.shape(slots));
    return to_seconds(p.latency + p.fluid);
  }
  double send(std::int64_t bytes, int from, int to) const {
    const auto p = collectives.point_to_point(Bytes(bytes), topology.path(from, to));
    return to_seconds(p.latency + p.fluid);
  }
  std::vector<int> all() const { return slots(0, 1, topology.devices()); }
  static std::vector<int> slots(int first, int step, int count) {
    std::vector<int> s;
    for (int i = 0; i < count; ++i) {
      s.push_back(first + i * step);
    }
    return s;
  }
};

job::Cluster thinner(job::Cluster c, double share) {
  c.node.nic = Bandwidth(c.node.nic.count() * share);
  return c;
}

}  // namespace

// Latency and protocol overheads do not grow when a NIC shrinks, so "half the bandwidth" is a
// statement about sizes that reach their bandwidth: within 2.5 % of what 1 TiB takes
// per byte.
TEST_CASE("half a NIC is half the bandwidth between nodes, and nothing changes inside one") {
  constexpr std::int64_t kHuge = std::int64_t{1} << 40;
  int bound = 0;
  for (const std::string name : {"dgx-h100", "dgx-a100", "polaris"}) {
    for (const int nodes : {1, 2, 4, 16, 64}) {
      const auto c = cluster_of(name, nodes);
      const auto node = Machine::slots(0, 1, c.node.gpus);
      for (const auto& nccl : {job::Nccl{}, forced("ring", "simple")}) {
        const Machine whole(c, nccl);
        const Machine half(thinner(c, 0.5), nccl);
        for (const auto op : kAll) {
          const auto saturated = [&](const Machine& m, std::int64_t bytes) {
            const double reached = m.time(op, bytes, m.all()) / static_cast<double>(bytes);
            const double limit = m.time(op, kHuge, m.all()) / static_cast<double>(kHuge);
            return std::abs(reached / limit - 1) <= 0.025;
          };
          for (std::int64_t bytes = 64 * kMiB; bytes <= 32768 * kMiB; bytes *= 8) {
            INFO(name << ", " << nodes << " nodes, " << bytes / kMiB << " MiB, " << to_string(op)
                      << (nccl.algo ? ", ring" : ""));
            CHECK(half.time(op, bytes, node) == whole.time(op, bytes, node));
            // With two nodes, NVLink carries the sums of NVLink SHARP in both directions at once
            // and may then be the bottleneck.
            const bool over_nvlink = !nccl.algo && op == Collective::all_reduce && nodes < 4;
            if (nodes == 1 || over_nvlink) {
              continue;
            }
            const double slower =
                half.time(op, bytes, half.all()) / whole.time(op, bytes, whole.all());
            CHECK((!nccl.algo || slower >= 1));
            CHECK(slower <= 2.3);
            if (saturated(whole, bytes) && saturated(half, bytes)) {
              // NCCL counts a rank of an NVLS tree over more than two domains at 45.5 GB/s, 9 %
              // below the NIC that is halved (tuning.cc, NVLSTree on Hopper).
              const bool capped = !nccl.algo && op == Collective::all_reduce && c.node.nvls;
              CHECK(slower >= (capped ? 2 * 45.5 / 50 : 1.9));
              CHECK(slower <= 2.1);
              ++bound;
            }
          }
        }
        for (std::int64_t bytes = 64 * kMiB; bytes <= 32768 * kMiB; bytes *= 8) {
          CHECK(half.send(bytes, 0, 1) == whole.send(bytes, 0, 1));
          if (nodes > 1) {
            const double sent =
                half.send(bytes, 0, c.node.gpus) / whole.send(bytes, 0, c.node.gpus);
            INFO(name << ", send of " << bytes / kMiB << " MiB");
            CHECK(sent >= 1.8);
            CHECK(sent <= 2.1);
          }
        }
      }
    }
  }
  CHECK(bound > 150);
  // 1 GiB per rank from two H100 nodes on: the NICs are the bottleneck of every collective.
  const auto c = cluster_of("dgx-h100", 8);
  const Machine whole(c);
  const Machine half(thinner(c, 0.5));
  for (const auto op : kAll) {
    INFO(to_string(op));
    CHECK(half.time(op, 65536 * kMiB, half.all()) / whole.time(op, 65536 * kMiB, whole.all()) ==
          Approx(2).margin(0.1));
  }
}

namespace {

// A lower bound of the time for any algorithm: the bytes that must cross a domain's NICs and a
// GPU's port.
double least_time(Collective op, double bytes, const cluster::GroupShape& g) {
  const double n = g.ranks;
  const double d = std::max(1, g.domains);
  const double r = g.ranks_per_domain;
  const bool reduces_in_network = g.sharp;
  double port = 0;
  double nics = 0;
  switch (op) {
    case Collective::all_reduce:
      // If switches reduce, each rank sends its buffer once; otherwise the reducing rank also sends
      // the result on.
      port = g.nvls || reduces_in_network ? bytes * (n - 1) / n : 2 * bytes * (n - 1) / n;
      nics = reduces_in_network ? bytes : 2 * bytes * (d - 1) / d;
      break;
    case Collective::all_gather:
    case Collective::reduce_scatter:
      port = bytes * (n - 1) / n;
      nics = bytes * (1 - r / n);
      break;
    case Collective::all_to_all:
      port = bytes * (r - 1) / n;
      nics = bytes * (n - r) / n * r;
      break;
    case Collective::broadcast:
    case Collective::reduce:
      port = bytes;
      nics = bytes;
      break;
    default:  // the largest domain's share of the root's buffer
      port = bytes * (r - 1) / n;
      nics = bytes * (n - r) / n;
  }
  if (g.domains > 1) {
    const double own =
        op == Collective::all_to_all || op == Collective::gather || op == Collective::scatter
            ? port / g.nvlink.count()
            : 0;
    return std::max(own, nics / g.nic_per_domain.count());
  }
  return port / g.nvlink.count();
}

}  // namespace

TEST_CASE("no collective beats the line rates of the ports that it crosses") {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const std::vector<std::optional<std::string>> algorithms = {
      std::nullopt, "ring", "tree", "nvls", "nvlstree", "pat", "hierarchical"};
  int priced = 0;
  for (const auto& name : config::list("clusters")) {
    for (const int nodes : {1, 2, 5, 16}) {
      job::Cluster c;
      try {
        c = cluster_of(name, nodes);
      } catch (const InputError&) {
        continue;  // a cluster of a fixed shape
      }
      if (nodes == 16) {
        c = thinner(c, 0.25 + 0.25 * below(12));
      }
      c.fabric.sharp = below(3) == 0;
      job::Nccl nccl;
      nccl.algo = algorithms[static_cast<std::size_t>(below(7))];
      const Machine m(c, nccl);
      for (int groups = 0; groups < 6; ++groups) {
        auto slots = m.all();
        std::shuffle(slots.begin(), slots.end(), random);
        slots.resize(static_cast<std::size_t>(
            groups == 0 ? m.topology.devices()
                        : std::min(m.topology.devices(), 2 + below(m.topology.devices()))));
        const auto shape = m.topology.shape(slots);
        if (shape.ranks < 2) {
          continue;
        }
        for (const auto op : kAll) {
          for (double bytes = 1024; bytes < 2e11; bytes *= 37) {
            const auto p = m.collectives.price(op, Bytes(static_cast<std::int64_t>(bytes)), shape);
            INFO(name << ", " << nodes << " nodes, " << shape.ranks << " ranks in " << shape.domains
                      << " domains, " << to_string(op) << " of " << bytes << " bytes, "
                      << to_string(p.algorithm));
            REQUIRE(to_seconds(p.fluid) >= least_time(op, bytes, shape) * 0.9999 - 1e-9);
            ++priced;
          }
        }
      }
    }
  }
  CHECK(priced > 20'000);
}

TEST_CASE(
    "with the algorithm fixed, more bandwidth is never slower, and more bytes are never faster") {
  int kept = 0;
  for (const std::string name : {"dgx-h100", "dgx-a100", "polaris", "gb200-nvl72"}) {
    const auto c = cluster_of(name, 36);
    for (const std::string algo : {"ring", "tree", "nvls", "nvlstree", "collnetdirect",
                                   "collnetchain", "pat", "hierarchical"}) {
      for (const std::string proto : {"ll", "ll128", "simple"}) {
        for (const double share : {0.3, 0.7}) {
          auto sharp = c;
          sharp.fabric.sharp = algo.rfind("coll", 0) == 0;
          const Machine fast(sharp, forced(algo, proto));
          const Machine slow(thinner(sharp, share), forced(algo, proto));
          auto narrow = sharp;
          narrow.device.nvlink = Bandwidth(sharp.device.nvlink.count() * share);
          const Machine inside(narrow, forced(algo, proto));
          for (const auto op : kAll) {
            const auto p = fast.collectives.price(op, Bytes(1000), fast.topology.shape(fast.all()));
            if (to_string(p.algorithm) != algo || to_string(p.protocol) != proto) {
              continue;  // NCCL does not have this choice here and falls back
            }
            ++kept;
            double before = 0;
            for (std::int64_t bytes = 1000; bytes < 20'000'000'000; bytes *= 5) {
              INFO(name << ", " << algo << " " << proto << ", " << share << ", " << to_string(op)
                        << ", " << bytes);
              const double now = fast.time(op, bytes, fast.all());
              REQUIRE(now >= before);
              REQUIRE(slow.time(op, bytes, slow.all()) >= now * (1 - 1e-9));
              REQUIRE(inside.time(op, bytes, inside.all()) >= now * (1 - 1e-9));
              before = now;
            }
          }
        }
      }
    }
  }
  CHECK(kept > 100);
}

TEST_CASE("the order in which ranks are named does not matter") {
  std::mt19937 random(3);
  for (const std::string name : {"dgx-h100", "polaris", "gb200-nvl72"}) {
    const Machine m(cluster_of(name, 20));
    for (int round = 0; round < 20; ++round) {
      auto slots = m.all();
      std::shuffle(slots.begin(), slots.end(), random);
      slots.resize(2 + random() % (slots.size() - 1));
      const auto first = slots;
      std::shuffle(slots.begin(), slots.end(), random);
      for (const auto op : kAll) {
        CHECK(m.time(op, 100 * kMiB, first) == m.time(op, 100 * kMiB, slots));
      }
    }
  }
}

TEST_CASE("one degraded NIC slows the groups that use it, and no other") {
  auto c = cluster_of("dgx-h100", 8);
  const Machine healthy(c, forced("ring", "simple"));
  c.faults = {{"node3/nic2", 0.5}};
  const Machine broken(c, forced("ring", "simple"));
  for (const auto op : kAll) {
    INFO(to_string(op));
    const std::int64_t bytes = 4096 * kMiB;
    for (int node = 0; node < 8; ++node) {  // tensor groups stay inside
      const auto group = Machine::slots(8 * node, 1, 8);
      CHECK(broken.time(op, bytes, group) == healthy.time(op, bytes, group));
    }
    for (int rail = 0; rail < 8; ++rail) {  // data-parallel groups, one GPU a node
      for (const int first : {0, 2, 4}) {   // node first … first + 3
        const auto group = Machine::slots(8 * first + rail, 8, 4);
        const double slower = broken.time(op, bytes, group) / healthy.time(op, bytes, group);
        if (rail == 2 && first <= 3) {
          CHECK(slower == Approx(2).margin(0.1));
        } else {
          CHECK(slower == 1);
        }
      }
    }
  }
}

TEST_CASE("a network that reduces halves what an all-reduce sends") {
  auto c = cluster_of("dgx-h100", 16);
  c.fabric.sharp = true;
  for (const std::string algo : {"collnetdirect", "collnetchain", "nvls"}) {
    const Machine m(c, forced(algo, "simple"));
    const auto p =
        m.collectives.price(Collective::all_reduce, Bytes(1 << 30), m.topology.shape(m.all()));
    CHECK(to_string(p.algorithm) == algo);
    CHECK(p.nic.count() == Approx((1 << 30) / 8.0).epsilon(1e-6));
  }
  const Machine ring(c, forced("ring", "simple"));
  const auto p = ring.collectives.price(Collective::all_reduce, Bytes(1 << 30),
                                        ring.topology.shape(ring.all()));
  CHECK(p.nic.count() == Approx(2.0 * 127 / 128 * (1 << 30) / 8).epsilon(1e-6));
  // CoreWeave's log of 8 HGX H100 with SHARP: 386 GB/s of bus bandwidth at 8 GiB
  // (coreweave/nccl-tests README.md @cb86553328f8). NCCL's own model says 384.
  auto eight = cluster_of("dgx-h100", 8);
  eight.fabric.sharp = true;
  CurveTable curves;
  const Collectives plain(eight, {}, "/nonexistent", {}, curves);
  const auto t = built(eight);
  const auto chosen =
      plain.price(Collective::all_reduce, Bytes(8LL << 30), t.shape(Machine::slots(0, 1, 64)));
  CHECK(chosen.algorithm == Algorithm::nvls);
  const double bus =
      static_cast<double>(8LL << 30) / to_seconds(chosen.latency + chosen.fluid) * 2 * 63 / 64;
  CHECK(bus == Approx(386.56e9).epsilon(0.06));
}
