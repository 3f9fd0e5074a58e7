#include "stepcast/hardware/hardware.h"

#include "catch.hpp"

using namespace stepcast;
using namespace stepcast::hardware;

namespace {

Device device(const char* name, double flops) {
  Device d;
  d.name = name;
  d.peak[DType::bf16] = FlopRate(flops);
  return d;
}

}  // namespace

TEST_CASE("Nodes are counted by device, the last override of a node deciding") {
  Cluster c;
  c.nodes = 8;
  c.device = device("fast", 900);
  CHECK(device_nodes(c).size() == 1);
  CHECK(mean_peak_of(c, DType::bf16) == FlopRate(900));
  c.overrides.push_back({4, 4, device("slow", 300)});
  c.overrides.push_back({6, 2, device("fast", 900)});
  const auto counts = device_nodes(c);
  REQUIRE(counts.size() == 2);
  CHECK(counts[0].device->name == "fast");
  CHECK(counts[0].nodes == 6);
  CHECK(counts[1].nodes == 2);
  CHECK(mean_peak_of(c, DType::bf16) == FlopRate((6 * 900.0 + 2 * 300.0) / 8));
  CHECK(mean_peak_of(c, DType::fp8) == FlopRate(0));
}
