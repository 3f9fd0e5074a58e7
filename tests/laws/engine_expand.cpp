// Collectives expanded into exchange steps: closed forms, exact to the picosecond.
#include <numeric>
#include <set>

#include "catch.hpp"
#include "stepcast/engine/engine.h"
#include "stepcast/lower/expand.h"
#include "stepcast/lower/fold.h"
#include "support/random_world.h"
#include "unit/cluster/clusters.h"

using namespace stepcast;
using namespace stepcast::test;
using cost::Collective;
using lower::ExpandedCollective;
using lower::StepPattern;

namespace {

struct Times {
  std::int64_t all = 0;
  std::vector<std::int64_t> ranks;  // end time of each
};

Times times(const program::World& w) {
  engine::Options once;
  once.once = true;
  const auto result = engine::run(w, once);
  if (const auto* d = std::get_if<program::Deadlock>(&result)) {
    std::string text;
    for (const std::string& line : d->chain) {
      text += line + "\n";
    }
    FAIL(text);
  }
  const auto& t = std::get<program::Timeline>(result);
  REQUIRE(t.steps == 1);
  REQUIRE(t.period == t.first_step);
  Times out{t.first_step.count(), {}};
  for (const program::RankResult& r : t.ranks) {
    out.ranks.push_back(std::accumulate(r.breakdown.begin(), r.breakdown.end(), Time{0}).count());
  }
  return out;
}

ExpandedCollective collective(std::vector<int> slots, Collective op, StepPattern pattern,
                              std::int64_t bytes, int chunks = 1) {
  return {std::move(slots), op, pattern, Bytes(bytes), chunks, Time(0)};
}

// Time of a single message between two slots without contention.
std::int64_t message(const cluster::Topology& t, int from, int to, std::int64_t bytes,
                     int share = 1) {
  const cluster::Path p = t.path(from, to);
  return p.latency.count() + share * (Bytes(bytes) / p.bandwidth).count();
}

std::int64_t share(std::int64_t bytes, std::int64_t parts) { return (bytes + parts - 1) / parts; }

constexpr std::int64_t kMiB = 1 << 20;

}  // namespace

TEST_CASE("A ring takes 2(n - 1) steps of a latency and an n-th of the bytes") {
  const auto t = built(dgx_a100(5));
  for (const int step : {1, 8}) {  // over NVLink, over one rail
    for (const int n : {1, 2, 3, 5}) {
      const std::vector<int> slots = every(0, step, n);
      for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{1}, 60 * kMiB, 7 * kMiB + 1}) {
        const std::int64_t one = n == 1 ? 0 : message(t, slots[0], slots[1], share(bytes, n));
        const auto time = [&](Collective op) {
          return times(lower::expand(t, collective(slots, op, StepPattern::ring, bytes))).all;
        };
        CAPTURE(step, n, bytes);
        CHECK(time(Collective::all_reduce) == 2 * (n - 1) * one);
        CHECK(time(Collective::all_gather) == (n - 1) * one);
        CHECK(time(Collective::reduce_scatter) == (n - 1) * one);
      }
    }
  }
}

TEST_CASE("The expanded ring agrees with the analytic one") {
  const auto t = built(hgx_h100(32));
  for (const int n : {2, 8, 32}) {
    const std::vector<int> slots = every(3, 8, n);
    const cluster::Path p = t.path(slots[0], slots[1]);
    for (const std::int64_t bytes : {32 * kMiB, 1024 * kMiB}) {
      const std::int64_t expanded = times(lower::expand(t, collective(slots, Collective::all_reduce,
                                                                      StepPattern::ring, bytes)))
                                        .all;
      const std::int64_t analytic =
          cost::ring_all_reduce_time(n, Bytes(bytes), p.bandwidth, p.latency).count();
      // Each step is rounded up to a picosecond.
      CHECK(expanded >= analytic - 1);
      CHECK(expanded <= analytic + 2 * (n - 1));
    }
  }
}

TEST_CASE("A chain of n takes n + chunks - 2 steps") {
  const auto t = built(dgx_a100(1));
  for (const int n : {1, 2, 5, 8}) {
    for (const int chunks : {1, 2, 9}) {
      const auto w = lower::expand(t, collective(every(0, 1, n), Collective::broadcast,
                                                 StepPattern::ring, 63 * kMiB, chunks));
      CHECK(times(w).all ==
            (n == 1 ? 0 : (n + chunks - 2) * message(t, 0, 1, share(63 * kMiB, chunks))));
    }
  }
}

TEST_CASE("A pairwise all-to-all takes n - 1 steps of an n-th") {
  const auto t = built(dgx_a100(8));
  for (const int step : {1, 8}) {
    for (const int n : {2, 5, 8}) {
      const auto w = lower::expand(t, collective(every(0, step, n), Collective::all_to_all,
                                                 StepPattern::pairwise, 40 * kMiB));
      CHECK(times(w).all == (n - 1) * message(t, 0, step, share(40 * kMiB, n)));
    }
  }
}

TEST_CASE("Two double trees: up, and down in the other direction, half of the bytes each") {
  const auto t = built(dgx_a100(1));
  const std::int64_t bytes = 96 * kMiB;
  // With two ranks, each is the root of one tree and a leaf of the other, and the chunks turn
  // around one by one. Every chunk except the first shares its sender with a chunk of the other
  // tree that goes down, and the last one comes down alone.
  for (const int chunks : {1, 4}) {
    const auto w = lower::expand(
        t, collective({2, 5}, Collective::all_reduce, StepPattern::double_tree, bytes, chunks));
    const std::int64_t piece = bytes / 2 / chunks;
    CHECK(times(w).all == 2 * message(t, 2, 5, piece) + (chunks - 1) * message(t, 2, 5, piece, 2));
  }
  // With four ranks: two hops up and two down. The inner node sends to two children at once over
  // one port.
  const auto w = lower::expand(
      t, collective({0, 1, 2, 3}, Collective::all_reduce, StepPattern::double_tree, bytes));
  CHECK(times(w).all == 3 * message(t, 0, 1, bytes / 2) + message(t, 0, 1, bytes / 2, 2));
}

TEST_CASE("With many chunks two trees are limited by ports, as a ring is") {
  // An inner node of one tree sends half of the bytes up and two halves down; in the other tree,
  // where it is a leaf, it sends one half up. So twice the bytes cross its port. A single tree with
  // all bytes would make that three times.
  const auto t = built(dgx_a100(1));
  const std::int64_t bytes = 1024 * kMiB;
  const auto port = static_cast<double>((Bytes(2 * bytes) / t.path(0, 1).bandwidth).count());
  for (const int n : {4, 6, 8}) {
    const auto w = lower::expand(t, collective(every(0, 1, n), Collective::all_reduce,
                                               StepPattern::double_tree, bytes, 256));
    const auto time = static_cast<double>(times(w).all);
    CAPTURE(n, time / port);
    CHECK(time > port);
    CHECK(time < 1.1 * port);
  }
}

TEST_CASE("Hierarchical: ring in each domain, rings across on every rail, ring in each domain") {
  for (const int nodes : {1, 2, 7}) {
    const auto t = built(hgx_h100(nodes));
    for (const std::int64_t bytes : {56 * kMiB, 1000 * kMiB + 3}) {
      const std::int64_t part = share(bytes, 8);
      const std::int64_t across =
          nodes == 1 ? 0 : 2 * (nodes - 1) * message(t, 0, 8, share(part, nodes));
      const auto w = lower::expand(t, collective(every(0, 1, 8 * nodes), Collective::all_reduce,
                                                 StepPattern::hierarchical, bytes));
      CHECK(times(w).all == 2 * 7 * message(t, 0, 1, part) + across);
      CHECK(lower::fold(w)->world.ranks.size() == 1);
    }
  }
  // With two nodes, the trees across nodes are pairs too.
  const auto t = built(hgx_h100(2));
  const auto w = lower::expand(t, collective(every(0, 1, 16), Collective::all_reduce,
                                             StepPattern::hierarchical_tree, 64 * kMiB, 4));
  CHECK(times(w).all == 2 * 7 * message(t, 0, 1, 8 * kMiB) + 2 * message(t, 0, 8, kMiB) +
                            3 * message(t, 0, 8, kMiB, 2));
}

TEST_CASE("Half a NIC slows exactly the ring that uses it, by exactly its steps") {
  auto c = dgx_a100(4);
  const std::int64_t bytes = 64 * kMiB;
  std::vector<ExpandedCollective> rails;
  for (int gpu = 0; gpu < 8; ++gpu) {
    rails.push_back(collective(every(gpu, 8, 4), Collective::all_reduce, StepPattern::ring, bytes));
  }
  const auto healthy = built(c);
  const Times before = times(lower::expand(healthy, rails));
  c.faults.push_back({"node2/nic3", 0.5});
  const auto faulty = built(c);
  const Times after = times(lower::expand(faulty, rails));
  const std::int64_t one = message(healthy, 0, 8, bytes / 4);
  const std::int64_t slow = message(healthy, 0, 8, bytes / 4, 2);
  for (std::size_t rank = 0; rank < 32; ++rank) {
    CHECK(before.ranks[rank] == 6 * one);
    if (rank % 8 != 3) {
      CHECK(after.ranks[rank] == 6 * one);
    }
  }
  CHECK(after.all == 6 * slow);
}

TEST_CASE("Two rings over one NIC take what it gives them; rings over others do not notice") {
  auto c = dgx_a100(3);
  c.node.nics = 4;  // GPUs 2i and 2i + 1 share NIC i
  const auto t = built(c);
  const std::int64_t bytes = 48 * kMiB;
  const auto ring = [&](int gpu, std::int64_t size) {
    return collective(every(gpu, 8, 3), Collective::all_reduce, StepPattern::ring, size);
  };
  const std::int64_t alone = message(t, 0, 8, bytes / 3);
  const std::int64_t shared = message(t, 0, 8, bytes / 3, 2);
  CHECK(times(lower::expand(t, ring(0, bytes))).all == 4 * alone);
  const std::vector<ExpandedCollective> three = {ring(0, bytes), ring(1, bytes), ring(2, bytes)};
  const Times both = times(lower::expand(t, three));
  for (std::size_t rank = 0; rank < 9; ++rank) {
    CHECK(both.ranks[rank] == (rank % 3 == 2 ? 4 * alone : 4 * shared));
  }
  // `start` delays the second, so each runs without contention.
  std::vector<ExpandedCollective> apart = {ring(0, bytes), ring(1, bytes)};
  apart[1].start = Time(4 * alone);
  CHECK(times(lower::expand(t, apart)).all == 8 * alone);
  // A ring inside the node shares no resource with one across nodes.
  const std::vector<ExpandedCollective> kinds = {
      ring(0, bytes), collective(every(0, 1, 8), Collective::all_reduce, StepPattern::ring, 8)};
  CHECK(times(lower::expand(t, kinds)).all == 4 * alone);
}

TEST_CASE("Folded equals full on random shapes, with faults") {
  int folded = 0;
  int bound = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    testing::Random r(seed);
    auto c = r.chance(50) ? dgx_a100(static_cast<int>(r.in(1, 6)))
                          : hgx_h100(static_cast<int>(r.in(1, 6)));
    c.node.nics = r.chance(50) ? 8 : 4;
    c.fabric.nodes_per_leaf = static_cast<int>(r.in(1, 4));
    c.fabric.oversubscription = r.chance(50) ? 1 : 2;
    using Kind = job::Fabric::Kind;
    using Intra = job::Node::Intra;
    if (r.chance(50)) {
      c.fabric.kind = r.chance(50) ? Kind::fat_tree : Kind::dragonfly;
      c.fabric.nodes_per_pod = c.fabric.nodes_per_leaf * static_cast<int>(r.in(1, 2));
      c.fabric.core_oversubscription = static_cast<double>(r.in(1, 3));
      c.fabric.routing = r.chance(50) ? job::Fabric::Routing::ecmp : job::Fabric::Routing::adaptive;
    }
    if (r.chance(40)) {
      c.node.intra = r.chance(50) ? Intra::nvlink_mesh : Intra::pcie;
      c.node.sockets = 2;
      c.node.pcie_switches = c.node.intra == Intra::pcie ? 4 : 0;
      c.node.inter_socket = Bandwidth(r.chance(50) ? 20e9 : 0);
    }
    std::set<std::string> faulty;
    for (std::int64_t k = r.in(0, 2); k > 0; --k) {
      faulty.insert("node" + std::to_string(r.in(0, c.nodes - 1)) + "/nic" +
                    std::to_string(r.in(0, c.node.nics - 1)));
    }
    for (const std::string& nic : faulty) {
      c.faults.push_back({nic, r.chance(50) ? 0.5 : 0.3});
    }
    CAPTURE(seed, c.nodes, c.node.nics);
    const auto t = built(c);
    std::vector<ExpandedCollective> all;
    for (std::int64_t k = r.in(1, 3); k > 0; --k) {
      ExpandedCollective x;
      const bool whole = r.chance(60);
      x.slots = whole ? every(0, 1, 8 * c.nodes) : every(static_cast<int>(r.in(0, 7)), 8, c.nodes);
      x.pattern = static_cast<StepPattern>(r.in(0, 4));
      x.op = x.pattern == StepPattern::pairwise               ? Collective::all_to_all
             : x.pattern == StepPattern::ring && r.chance(30) ? Collective::broadcast
                                                              : Collective::all_reduce;
      x.bytes = Bytes(r.in(1, 200) * 1'000'003);
      x.chunks = static_cast<int>(r.in(1, 5));
      x.start = Time(r.chance(50) ? 0 : r.in(1, 900) * 1'000'000);
      all.push_back(x);
    }
    const program::World full = lower::expand(t, all);
    const auto fold = lower::fold(full);
    REQUIRE(fold.has_value());
    const Times a = times(full);
    const Times b = times(fold->world);
    REQUIRE(a.all == b.all);
    for (std::size_t rank = 0; rank < a.ranks.size(); ++rank) {
      REQUIRE(a.ranks[rank] == b.ranks[fold->class_of[rank]]);
    }
    folded += fold->world.ranks.size() < full.ranks.size() ? 1 : 0;
    bound += c.node.nics == 4 || all.size() > 1 ? 1 : 0;
  }
  CHECK(folded > 60);
  CHECK(bound > 250);
}

TEST_CASE("What cannot be expanded is refused") {
  const auto t = built(dgx_a100(2));
  const auto refused = [&](ExpandedCollective x) {
    CHECK_THROWS_AS(lower::expand(t, x), std::invalid_argument);
  };
  refused(collective({}, Collective::all_reduce, StepPattern::ring, 1));
  refused(collective({0, 16}, Collective::all_reduce, StepPattern::ring, 1));
  refused(collective({0, 0}, Collective::all_reduce, StepPattern::ring, 1));
  refused(collective({0, 1}, Collective::all_reduce, StepPattern::ring, -1));
  refused(collective({0, 1}, Collective::all_reduce, StepPattern::ring, 1, 0));
  refused(collective({0, 1}, Collective::all_to_all, StepPattern::ring, 1));
  refused(collective({0, 1}, Collective::all_reduce, StepPattern::pairwise, 1));
  refused(collective({0, 1, 8}, Collective::all_reduce, StepPattern::hierarchical, 1));
}
