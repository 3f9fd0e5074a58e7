// Collectives measured by calibrate-gpu, printed in the format of nccl-tests and read by the reader
// of its logs.
#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "catch.hpp"
#include "harness/nccl_table.h"
#include "report/collective/bus.h"
#include "stepcast/interop/nccl_log.h"

namespace {

using namespace stepcast;
using interop::CollectiveCase;
using interop::GpuMeasurement;

const std::vector<std::string> kOps = {"all_reduce", "all_gather", "reduce_scatter", "alltoall",
                                       "sendrecv",   "broadcast",  "reduce"};

GpuMeasurement measured(const CollectiveCase& what, double seconds) {
  GpuMeasurement m;
  m.what = what;
  m.time = {seconds, seconds * 0.99, seconds * 1.02, 20};
  return m;
}

CollectiveCase collective(const std::string& op, std::int64_t bytes, int ranks = 8, int nodes = 1) {
  CollectiveCase c;
  c.op = op;
  c.bytes = bytes;
  c.ranks = ranks;
  c.nodes = nodes;
  return c;
}

interop::GpuSession session() {
  interop::GpuSession s;
  s.gpu = "NVIDIA H200";
  s.nccl = "2.28.9";
  return s;
}

std::string table(const std::vector<GpuMeasurement>& measurements) {
  std::ostringstream out;
  harness::write_nccl_tables(out, session(), measurements);
  return out.str();
}

}  // namespace

TEST_CASE("every operation's table is read back: sizes, times, type, placement, GPU, version") {
  for (const std::string& op : kOps) {
    for (const auto& [ranks, nodes] : {std::pair{8, 1}, {2, 1}, {16, 2}, {6, 3}}) {
      CAPTURE(op, ranks, nodes);
      std::vector<GpuMeasurement> all;
      // In no particular order, and from a few microseconds to seconds.
      for (const int power : {9, 8, 0, 1, 2, 3, 4, 5, 6, 7}) {
        const std::int64_t bytes =
            harness::whole_size(op, std::int64_t{1} << (10 + 2 * power), ranks);
        all.push_back(
            measured(collective(op, bytes, ranks, nodes), 7.03e-6 * std::pow(3.9, power)));
      }
      const auto log = interop::parse_nccl_log(table(all), "x.log");
      REQUIRE(log.runs.size() == 1);
      const auto& run = log.runs[0];
      CHECK(run.ranks_per_node == std::vector<int>(static_cast<std::size_t>(nodes), ranks / nodes));
      CHECK(run.devices == std::vector<std::string>{"NVIDIA H200"});
      CHECK(run.nccl_version == "2.28.9");
      CHECK(run.algorithm.empty());
      CHECK(run.protocol.empty());
      REQUIRE(run.points.size() == all.size());
      CHECK(std::is_sorted(run.points.begin(), run.points.end(),
                           [](const auto& a, const auto& b) { return a.bytes < b.bytes; }));
      for (const auto& point : run.points) {
        CHECK(point.collective == op);
        CHECK(point.type == "float");
        CHECK_FALSE(point.in_place);
        CHECK_FALSE(point.wrong);
        const auto original = std::find_if(all.begin(), all.end(), [&](const GpuMeasurement& m) {
          return std::get<CollectiveCase>(m.what).bytes == point.bytes;
        });
        REQUIRE(original != all.end());
        // Below 100 us nccl-tests prints hundredths of a microsecond.
        CHECK(point.seconds == Approx(original->time.median).epsilon(1e-3));
      }
    }
  }
}

TEST_CASE("one table for each operation, type, placement, algorithm and protocol") {
  std::vector<GpuMeasurement> all;
  CollectiveCase plain = collective("all_reduce", 1 << 20);
  CollectiveCase ring = plain;
  ring.algo = "Ring";
  ring.proto = "LL128";
  CollectiveCase half = plain;
  half.dtype = job::DType::bf16;
  CollectiveCase other = collective("all_gather", 1 << 20);
  CollectiveCase fewer = collective("all_reduce", 1 << 20, 4);
  for (const CollectiveCase& what : {plain, ring, half, other, fewer}) {
    all.push_back(measured(what, 50e-6));
  }
  CollectiveCase larger = ring;  // on a later line of the file, as after an interruption
  larger.bytes = 2 << 20;
  all.push_back(measured(larger, 90e-6));
  GpuMeasurement skipped = measured(collective("all_reduce", 4 << 20), 0);
  skipped.skipped = "not enough GPU memory";
  all.push_back(skipped);
  GpuMeasurement gemm;
  gemm.what = interop::GemmCase{};
  gemm.time = {1e-3, 1e-3, 1e-3, 5};
  all.push_back(gemm);
  const auto log = interop::parse_nccl_log(table(all), "x.log");
  REQUIRE(log.runs.size() == 5);
  CHECK(log.runs[0].points.size() == 1);
  CHECK(log.runs[0].points[0].collective == "all_reduce");
  CHECK(log.runs[0].algorithm.empty());
  CHECK(log.runs[1].algorithm == "ring");
  CHECK(log.runs[1].protocol == "ll128");
  REQUIRE(log.runs[1].points.size() == 2);
  CHECK(log.runs[1].points[1].bytes == 2 << 20);
  CHECK(log.runs[2].points[0].type == "bfloat16");
  CHECK(log.runs[2].algorithm.empty());
  CHECK(log.runs[3].points[0].collective == "all_gather");
  CHECK(log.runs[4].ranks_per_node == std::vector<int>{4});
}

TEST_CASE("nothing measured, nothing printed") {
  CHECK(table({}).empty());
  GpuMeasurement skipped = measured(collective("all_reduce", 1024), 0);
  skipped.skipped = "one GPU";
  CHECK(table({skipped}).empty());
}

TEST_CASE("bus bandwidths are those of the report's own rule") {
  for (const std::string& op : kOps) {
    for (const int ranks : {1, 2, 3, 8, 64}) {
      CAPTURE(op, ranks);
      result::CollectiveTable t;
      t.op = op;
      t.ranks_per_node = {ranks};
      CHECK(harness::bus_factor(op, ranks) ==
            Approx(report::bus_bandwidth(t, 1'000'000, 1.0) / 1e6).margin(1e-12));
      CHECK(harness::in_shares(op) == report::sharded(op));
    }
  }
}

TEST_CASE("elements as nccl-tests counts them") {
  const auto counts = [](const std::string& op, std::int64_t bytes) {
    return harness::counts_of(collective(op, bytes, 4)).value();
  };
  // 4 ranks, 4096 bytes of fp32: 1024 elements, a share of 256.
  const auto same = [](const harness::CollectiveCounts& c, std::int64_t count, std::int64_t send,
                       std::int64_t receive) {
    return c.count == count && c.send == send && c.receive == receive;
  };
  CHECK(same(counts("all_reduce", 4096), 1024, 1024, 1024));
  CHECK(same(counts("all_gather", 4096), 256, 256, 1024));
  CHECK(same(counts("reduce_scatter", 4096), 256, 1024, 256));
  CHECK(same(counts("alltoall", 4096), 256, 1024, 1024));
  CHECK(same(counts("sendrecv", 4096), 1024, 1024, 1024));
  CHECK(same(counts("broadcast", 4096), 1024, 1024, 1024));
  CHECK(same(counts("reduce", 4096), 1024, 1024, 1024));
  CHECK_FALSE(harness::counts_of(collective("all_reduce", 4098, 4)));
  CHECK_FALSE(harness::counts_of(collective("all_gather", 4100, 4)));
  CHECK_FALSE(harness::counts_of(collective("all_reduce", 0, 4)));
  CHECK_FALSE(harness::counts_of(collective("barrier", 4096, 4)));
  CollectiveCase blocks = collective("all_reduce", 4096, 4);
  blocks.dtype = job::DType::mxfp8;
  CHECK_FALSE(harness::counts_of(blocks));
  // Shares are multiples of 16 bytes: 3 ranks, 4096 bytes, shares of 1360.
  CHECK(harness::whole_size("all_gather", 4096, 3) == 3 * 1360);
  CHECK(harness::whole_size("all_gather", 4096, 4) == 4096);
  CHECK(harness::whole_size("all_reduce", 4096, 3) == 4096);
  for (const std::string& op : kOps) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      CHECK(harness::counts_of(collective(op, harness::whole_size(op, 1 << 20, ranks), ranks)));
    }
  }
}
