// Closed forms of collectives.
#include "stepcast/cost/collectives.h"

#include "../unit/cluster/clusters.h"
#include "catch.hpp"
#include "support/no_files.h"

using namespace stepcast;
using namespace stepcast::cost;
using namespace stepcast::test;

namespace {
__extension__ using Wide = __int128;

// True if `t` is the whole number of picoseconds nearest to 2(n-1)/n * S / B (a tie may go either
// way).
bool nearest_to_ring(std::int64_t t, Wide n, Wide bytes, Wide rate) {
  const Wide top = 2 * (n - 1) * bytes * 1'000'000'000'000;
  const Wide bottom = n * rate;
  const Wide off = top - t * bottom;
  return 2 * (off < 0 ? -off : off) <= bottom;
}
}  // namespace

TEST_CASE("ring all-reduce: 2(n-1)/n S/B + 2(n-1) alpha") {
  const Time alpha(2'700'000);
  for (const int n : {2, 3, 4, 8, 16, 72, 1000}) {
    for (const std::int64_t bytes : {1LL, 8LL, 4096LL, 1'000'003LL, 1LL << 30, 17LL << 30}) {
      for (const std::int64_t rate : {1'000'000'000LL, 24'000'000'000LL, 370'800'000'000LL}) {
        const Time t =
            ring_all_reduce_time(n, Bytes(bytes), Bandwidth(static_cast<double>(rate)), alpha);
        INFO(n << " ranks, " << bytes << " bytes, " << rate << " B/s");
        const std::int64_t moving = t.count() - 2 * (n - 1) * alpha.count();
        REQUIRE(nearest_to_ring(moving, n, bytes, rate));
      }
    }
  }
  CHECK(ring_all_reduce_time(1, Bytes(1 << 20), Bandwidth(1e9), alpha).count() == 0);
}

TEST_CASE("forced ring, Simple: the fluid part is the law on NCCL's bus") {
  // Two to 64 nodes with one rank each: the bottleneck is the member's NIC, 25 GB/s.
  const auto c = dgx_a100(64);
  const auto t = built(c);
  CurveTable curves;
  const Collectives collectives(c, {"ring", "simple"}, kNoFiles, {}, curves);
  for (const int n : {2, 5, 16, 64}) {
    for (const std::int64_t bytes : {1LL << 20, 160'000'000LL, 1LL << 31}) {
      const auto price =
          collectives.price(Collective::all_reduce, Bytes(bytes), t.shape(every(0, 8, n)));
      REQUIRE(price.fluid == ring_all_reduce_time(n, Bytes(bytes), Bandwidth(25e9), Time(0)));
      // All-gather and reduce-scatter are each one half of an all-reduce.
      for (const auto half : {Collective::all_gather, Collective::reduce_scatter}) {
        const auto h = collectives.price(half, Bytes(bytes), t.shape(every(0, 8, n)));
        REQUIRE(std::abs(2 * h.fluid.count() - price.fluid.count()) <= 1);
      }
      CHECK(price.algorithm == Algorithm::ring);
      CHECK(price.protocol == Protocol::simple);
    }
  }
}

TEST_CASE("bytes on a leaf's uplinks: one domain's rings, every domain's messages") {
  auto c = dgx_a100(8);
  c.fabric.nodes_per_leaf = 4;
  c.fabric.oversubscription = 2;
  const std::int64_t s = 1LL << 30;
  for (const bool rails : {true, false}) {
    c.fabric.kind = rails ? job::Fabric::Kind::rail_optimized : job::Fabric::Kind::fat_tree;
    const auto t = built(c);
    CurveTable curves;
    const Collectives ring(c, {"ring", "simple"}, kNoFiles, {}, curves);
    const auto all = t.shape(every(0, 1, 64));
    // A leaf of a rail carries an eighth of what the rings of all eight rails send between the two
    // pods.
    const double passed = 2 * 63.0 / 64 * s;
    CHECK(ring.price(Collective::all_reduce, Bytes(s), all).spine.count() ==
          Approx(rails ? passed / 8 : passed));
    // All-to-all: 32 GPUs below send half of their buffers to the other pod.
    const double sent = 32 * s / 2.0;
    CHECK(ring.price(Collective::all_to_all, Bytes(s), all).spine.count() ==
          Approx(rails ? sent / 8 : sent));
  }
}

TEST_CASE("ring latency is linear in hops, tree latency in doublings") {
  auto c = dgx_a100(64);
  c.fabric.nodes_per_leaf = 64;  // spines add latency of their own
  const auto t = built(c);
  CurveTable curves;
  const Collectives ring(c, {"ring", "ll"}, kNoFiles, {}, curves);
  const Collectives tree(c, {"tree", "ll"}, kNoFiles, {}, curves);
  const auto latency = [&](const Collectives& with, int n) {
    return with.price(Collective::all_reduce, Bytes(8), t.shape(every(0, 8, n))).latency.count();
  };
  // One rank per node: NCCL adds 5.0 us, its latency of a tree hop, for each of 2(n-1) steps to a
  // base of 6.6 us.
  for (const int n : {2, 4, 32, 64}) {
    CHECK(latency(ring, n) == 6'600'000 + 2 * (n - 1) * 5'000'000LL);
  }
  CHECK(latency(tree, 2) == 6'800'000 + 2 * 5'000'000LL);
  CHECK(latency(tree, 64) == 6'800'000 + 2 * 6 * 5'000'000LL);
}

TEST_CASE("bytes on ports: what every rank must send at least, and no more") {
  const auto c = hgx_h100(8);
  const auto t = built(c);
  CurveTable curves;
  const Collectives ring(c, {"ring", "simple"}, kNoFiles, {}, curves);
  const std::int64_t s = 1LL << 30;
  const double n = 64;
  // 8 ranks of a node share 8 NICs: one ring per NIC, each of which carries 2(n-1)/n S / 8.
  const auto all = ring.price(Collective::all_reduce, Bytes(s), t.shape(every(0, 1, 64)));
  CHECK(all.nic.count() == Approx(2 * (n - 1) / n * s / 8));
  CHECK(all.nvlink.count() == Approx(2 * (n - 1) / n * s * 7 / 8));
  // One rank per node: everything goes through its NIC.
  const auto data = ring.price(Collective::all_gather, Bytes(s), t.shape(every(3, 8, 8)));
  CHECK(data.nic.count() == Approx(7.0 / 8 * s));
  CHECK(data.nvlink.count() == 0);
  const auto a2a = ring.price(Collective::all_to_all, Bytes(s), t.shape(every(0, 1, 16)));
  CHECK(a2a.nic.count() == Approx(s / 2.0));
  CHECK(a2a.nvlink.count() == Approx(s * 7.0 / 16));
  // NVLink SHARP: each rank sends its buffer once and the owner's part of the result.
  const Collectives nvls(c, {"nvls", std::nullopt}, kNoFiles, {}, curves);
  const auto sharp = nvls.price(Collective::all_reduce, Bytes(s), t.shape(every(0, 1, 8)));
  CHECK(sharp.algorithm == Algorithm::nvls);
  CHECK(sharp.nvlink.count() == Approx(s * 9.0 / 8));
}
