// Bus bandwidth of large all-reduces on devices that are not NVIDIA's, beside what is published and
// what their links allow.
#include "../unit/cluster/clusters.h"
#include "catch.hpp"
#include "stepcast/config/config.h"
#include "stepcast/cost/collectives.h"
#include "stepcast/text/document.h"

using namespace stepcast;
using namespace stepcast::cost;
using namespace stepcast::test;

namespace {

// nccl-tests' bus bandwidth, bytes/s, of an all-reduce over the first `ranks` of one node, as
// calibrated.
double bus_bandwidth(const job::Cluster& cluster, int ranks, std::int64_t bytes) {
  const auto t = built(cluster);
  CurveTable curves;
  const Collectives collectives(cluster, {}, text::data_directory() / "calibration", {}, curves);
  const auto price =
      collectives.price(Collective::all_reduce, Bytes(bytes), t.shape(every(0, 1, ranks)));
  return 2.0 * (ranks - 1) / ranks * static_cast<double>(bytes) /
         (to_seconds(price.latency) + to_seconds(price.fluid));
}

job::Cluster cluster_of(const std::string& name) {
  const std::string job =
      "{model: llama-3-8b, cluster: {use: " + name +
      ", nodes: 1}, system: megatron-lm, workload: {sequence_length: 8192, global_batch: 8}}";
  return config::parse(job, "job").job.cluster;
}

constexpr std::int64_t kLarge = 4LL << 30;

}  // namespace

TEST_CASE("MI300X: the bus bandwidths that were published") {
  const job::Cluster node = cluster_of("amd-mi300x");
  // stas00/ml-engineering, network README @744d01e1: 4 GiB all-reduce.
  CHECK(bus_bandwidth(node, 8, kLarge) == Approx(312.9e9).epsilon(0.02));
  CHECK(bus_bandwidth(node, 2, kLarge) == Approx(47.7e9).epsilon(0.02));
}

TEST_CASE("every node of AMD's: below its links' data sheet, and a share of it as MI300X has") {
  for (const char* name : {"amd-mi300x", "amd-mi308x", "amd-mi325x", "amd-mi350x", "amd-mi355x"}) {
    CAPTURE(name);
    const job::Cluster node = cluster_of(name);
    const double links = node.device.nvlink.count();
    const double reached = bus_bandwidth(node, 8, kLarge) / links;
    CHECK(reached < 0.75);  // RCCL's own assumption of a link
    CHECK(reached == Approx(312.9 / 448).epsilon(0.03));
    // Two GPUs have one of seven links between them.
    CHECK(bus_bandwidth(node, 2, kLarge) < links / 7);
  }
}
