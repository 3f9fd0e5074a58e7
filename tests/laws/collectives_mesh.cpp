// Closed forms of collectives on a full mesh: n ranks, a link of its own between every two.
#include "../unit/cluster/clusters.h"
#include "catch.hpp"
#include "stepcast/cost/collectives.h"
#include "support/no_files.h"

using namespace stepcast;
using namespace stepcast::cost;
using namespace stepcast::test;

namespace {

constexpr double kLink = 64e9;     // bytes/s of one link
constexpr double kAssumed = 0.75;  // RCCL's share of it: 48 of 64 GB/s

// Eight GPUs of AMD's, each with seven links.
job::Cluster mesh() {
  job::Cluster c = dgx_a100(1);
  c.device.name = "made-up";
  c.device.compute_capability = 0;
  c.device.vendor = hardware::Vendor::amd;
  c.device.nvlink = Bandwidth(7 * kLink);
  c.device.nvlink_generation = 0;
  c.node.intra = job::Node::Intra::nvlink_mesh;
  c.node.nvls = false;
  c.node.gpus = 8;
  return c;
}

}  // namespace

TEST_CASE("full mesh: every rank exchanges its part over all its links at once") {
  const auto c = mesh();
  const auto t = built(c);
  CurveTable curves;
  const Collectives collectives(c, {}, kNoFiles, {}, curves);
  for (const int n : {2, 3, 4, 8}) {
    const auto group = t.shape(every(0, 1, n));
    REQUIRE(group.all_linked);
    for (const std::int64_t bytes : {1LL << 28, 1LL << 33}) {
      // A part of bytes / n to each of the others, over a link of its own: the same for n-1 rings.
      const double step = static_cast<double>(bytes) / n / (kLink * kAssumed);
      for (const auto op : {Collective::all_gather, Collective::reduce_scatter}) {
        CHECK(to_seconds(collectives.price(op, Bytes(bytes), group).fluid) == Approx(step));
      }
      const auto both = collectives.price(Collective::all_reduce, Bytes(bytes), group);
      CHECK(to_seconds(both.fluid) == Approx(2 * step));
      // One step or two, whatever the number of ranks, and never below a ring of the same links.
      CurveTable forced_curves;
      const Collectives ring(c, {"ring", "simple"}, kNoFiles, {}, forced_curves);
      const auto rings = ring.price(Collective::all_reduce, Bytes(bytes), group);
      CHECK(rings.algorithm == Algorithm::ring);
      CHECK(to_seconds(rings.fluid) == Approx(2 * step));
      CHECK(both.latency <= rings.latency);
    }
  }
}

TEST_CASE("full mesh: small buffers take two hops, however many ranks there are") {
  const auto c = mesh();
  const auto t = built(c);
  CurveTable curves;
  const Collectives collectives(c, {}, kNoFiles, {}, curves);
  const auto small = [&](int n) {
    return collectives.price(Collective::all_reduce, Bytes(1024), t.shape(every(0, 1, n)));
  };
  CHECK(small(8).algorithm == Algorithm::all_pairs);
  CHECK(small(8).latency == small(4).latency);
}

TEST_CASE("full mesh: no switch reduces, and NVIDIA's nodes take no step of AMD's library") {
  auto c = mesh();
  c.device.vendor = hardware::Vendor::nvidia;
  c.device.compute_capability = 8;
  const auto t = built(c);
  CurveTable curves;
  const Collectives nccl(c, {}, kNoFiles, {}, curves);
  for (const std::int64_t bytes : {1LL << 10, 1LL << 30}) {
    const auto price = nccl.price(Collective::all_reduce, Bytes(bytes), t.shape(every(0, 1, 8)));
    CHECK(price.algorithm != Algorithm::all_pairs);
    CHECK(price.algorithm != Algorithm::nvls);
  }
}
