// What-ifs: a job that states another rate of one link than its named cluster has. On every cluster
// of configs/ no collective and no send takes longer at a higher rate: the fit stays that of the
// machine, and each of NCCL's algorithms and protocols is scaled from its rates (predict.h,
// measure_by). There is no exception: the predicted time is the least over what NCCL offers, and
// not that of the line which its tuner would choose.
#include <fmt/core.h>

#include <map>
#include <numeric>

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

constexpr std::int64_t kLeast = 1 << 10;
constexpr std::int64_t kMost = std::int64_t{1} << 32;
constexpr double kShares[] = {0.25, 0.5, 1, 2, 4};

struct Rate {
  const char* key;
  double bytes;  // per second
};

// The rates of links that a cluster states.
std::vector<Rate> rates_of(const job::Cluster& c) {
  std::vector<Rate> out;
  for (const auto& [key, rate] : {std::pair{"cluster.device.nvlink", c.device.nvlink},
                                  {"cluster.device.pcie", c.device.pcie},
                                  {"cluster.node.nic", c.node.nic},
                                  {"cluster.node.pcie_uplink", c.node.pcie_uplink},
                                  {"cluster.node.inter_socket", c.node.inter_socket}}) {
    if (rate.count() > 0) {
      out.push_back({key, rate.count()});
    }
  }
  return out;
}

// Groups of a cluster's GPUs: all, one of each node, a node, two neighbours.
std::vector<std::vector<int>> groups_of(int gpus, int nodes) {
  const auto slots = [](int step, int count) {
    std::vector<int> s;
    for (int i = 0; i < count; ++i) {
      s.push_back(i * step);
    }
    return s;
  };
  std::vector<std::vector<int>> out = {slots(1, gpus * nodes)};
  if (nodes > 1) {
    out.push_back(slots(gpus, nodes));
    out.push_back(slots(1, gpus));
  }
  if (gpus > 2) {
    out.push_back(slots(1, 2));
  }
  return out;
}

using Times = std::map<std::string, double>;  // seconds by what is timed

// Times of all operations on a cluster with one of its rates changed.
Times times_of(const std::string& name, int nodes, const Rate& rate, double share,
               const job::Nccl& forced) {
  const job::Cluster c =
      input::network(name, nodes, {fmt::format("{}={}", rate.key, rate.bytes * share)}).cluster;
  const auto built = cluster::Topology::build(c);
  const auto* topology = std::get_if<cluster::Topology>(&built);
  REQUIRE(topology != nullptr);
  CurveTable curves;
  const Collectives collectives(c, forced, text::data_directory() / "calibration", {}, curves);
  Times out;
  for (const auto& group : groups_of(c.node.gpus, nodes)) {
    if (group.size() < 2) {
      continue;
    }
    const auto shape = topology->shape(group);
    const auto path = topology->path(group[0], group[1]);
    for (std::int64_t bytes = kLeast; bytes <= kMost; bytes *= 4) {
      const auto place = fmt::format("{} ranks from {} to {}, {} bytes", group.size(), group[0],
                                     group.back(), bytes);
      for (const Collective op : kAll) {
        const auto p = collectives.price(op, Bytes(bytes), shape);
        out[fmt::format("{} {}", to_string(op), place)] = to_seconds(p.latency + p.fluid);
      }
      const auto send = collectives.point_to_point(Bytes(bytes), path);
      out["send " + place] = to_seconds(send.latency + send.fluid);
      TokenExchange tokens;
      tokens.tokens = Bytes(bytes);
      tokens.routes = {64, 8};
      const auto exchange = collectives.exchange(tokens, shape);
      out["exchange " + place] = to_seconds(exchange.latency + exchange.fluid);
    }
  }
  return out;
}

int hold(const std::string& name, int nodes, const job::Nccl& forced) {
  int held = 0;
  for (const Rate& rate : rates_of(input::network(name, nodes).cluster)) {
    Times slower;
    for (const double share : kShares) {
      Times faster = times_of(name, nodes, rate, share, forced);
      for (const auto& [what, time] : slower) {
        INFO(name << ", " << nodes << " nodes, " << rate.key << " at " << share << ": " << what);
        // A picosecond: prices are whole ones.
        CHECK(faster.at(what) <= time + 1e-12);
        ++held;
      }
      slower = std::move(faster);
    }
  }
  return held;
}

}  // namespace

TEST_CASE("a faster link slows no collective down, on any cluster of configs/") {
  int held = 0;
  for (const std::string& name : config::list("clusters")) {
    for (const int nodes : {1, 2, 8}) {
      held += hold(name, nodes, {});
    }
  }
  CHECK(held > 100'000);
}

TEST_CASE("nor does it one whose algorithm and protocol are forced") {
  for (const char* name : {"dgx-a100", "hgx-b200", "aws-p4d", "azure-nd-mi300x-v5"}) {
    for (const char* algo : {"ring", "tree", "nvls"}) {
      for (const char* proto : {"ll", "ll128", "simple"}) {
        hold(name, 2, forced(algo, proto));
      }
    }
  }
}

TEST_CASE("nor one that has a limited number of channels") {
  for (const char* name : {"hgx-h100-roce-llama3", "dgx-a100", "amd-mi325x", "hgx-b200",
                           "jean-zay-a100", "gcp-a2-highgpu", "rtx4090-server"}) {
    for (const int most : {1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 32, 64}) {
      job::Nccl few;
      few.max_ctas = most;
      hold(name, 1, few);
      hold(name, 2, few);
    }
  }
}

// The rates that the names mean are those of the files, whatever a job states.
TEST_CASE("a what-if says from which rate its curve is scaled, and a named cluster is none") {
  const auto scaled = [](const std::vector<std::string>& overrides) {
    CurveTable curves;
    const auto c = input::network("hgx-b200", 2, overrides).cluster;
    const Collectives collectives(c, {}, text::data_directory() / "calibration", {}, curves);
    std::string all;
    for (const Curve& curve : curves.curves()) {
      all += curve.scaled + "\n";
    }
    return all;
  };
  CHECK(scaled({}).find("scaled") == std::string::npos);
  CHECK(scaled({"cluster.node.nic=800 Gb/s"})
            .find("hgx-h100-ndr.yaml: measured with NICs of 50 GB/s, scaled to 100 GB/s") !=
        std::string::npos);
  CHECK(scaled({"cluster.device.nvlink=450 GB/s"})
            .find("b200-sxm.yaml: measured with NVLink of 900 GB/s, scaled to 450 GB/s") !=
        std::string::npos);
}

TEST_CASE("over sockets, faster adapters carry no more") {
  // AWS p3dn: 100 Gb/s, of which its sockets reach less than half.
  const auto time = [](const char* nic) {
    const auto loaded = input::parse(
        std::string("model: llama-3-8b\ncluster: {use: aws-p3dn, nodes: 2}\n"
                    "workload: {sequence_length: 2048, global_batch: 64, precision: fp16}\n"),
        "job.yaml", {std::string("cluster.node.nic=") + nic});
    const job::Cluster& c = loaded.job.cluster;
    CurveTable curves;
    const Collectives with(c, {}, text::data_directory() / "calibration", {}, curves);
    const auto topology = cluster::Topology::build(c);
    std::vector<int> all(16);
    std::iota(all.begin(), all.end(), 0);
    const auto p = with.price(Collective::all_reduce, Bytes(1 << 30),
                              std::get<cluster::Topology>(topology).shape(all));
    return to_seconds(p.latency + p.fluid);
  };
  CHECK(time("400 Gb/s") == Approx(time("100 Gb/s")).epsilon(1e-6));
  CHECK(time("10 Gb/s") > 1.5 * time("100 Gb/s"));
}
