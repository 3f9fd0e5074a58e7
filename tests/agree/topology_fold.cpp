// Jobs on fabrics of every kind, with faults: the folded simulation equals the full one to the
// picosecond, and the bound is never above it.
#include <fmt/format.h>

#include <random>

#include "catch.hpp"
#include "stepcast/bound/bound.h"
#include "stepcast/config/config.h"
#include "stepcast/engine/engine.h"
#include "stepcast/lower/fold.h"
#include "stepcast/lower/lower.h"
#include "stepcast/text/document.h"

using namespace stepcast;

namespace {

int pick(std::mt19937& random, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(random);
}

const char* const kClusters[] = {
    // The core and the leaves' uplinks are bottlenecks.
    "{use: dgx-a100, nodes: 8, fabric: {kind: fat_tree, nodes_per_leaf: 1, nodes_per_pod: 2, "
    "oversubscription: 2, core_oversubscription: 8}",
    "{use: dgx-a100, nodes: 8, fabric: {kind: rail_optimized, nodes_per_leaf: 2, nodes_per_pod: 4, "
    "core_oversubscription: 3, pxn: false}",
    "{use: dgx-a100, nodes: 8, fabric: {kind: dragonfly, nodes_per_leaf: 1, nodes_per_pod: 2, "
    "core_oversubscription: 2}",
    "{use: dgx-a100, nodes: 8, fabric: {kind: fat_tree, nodes_per_leaf: 2, routing: ecmp}",
    "{use: polaris, nodes: 8, fabric: {kind: dragonfly, nodes_per_leaf: 2, nodes_per_pod: 2, "
    "core_oversubscription: 4, routing: ecmp}",
    "{use: l40s-server, nodes: 2",
    "{use: rtx4090-server, nodes: 2, node: {pcie_switches: 4}",
    "{use: tpu-v4, nodes: 8, fabric: {use: tpu-torus, torus: [2, 4, 4]}",
    "{use: dgx-1-v100, nodes: 2"};
const char* const kFaults[] = {"",
                               "{link: node1/nic0, bandwidth: 0.3}",
                               "{nic: node0/nic1, state: down}",
                               "{rail: rail0, bandwidth: 0.5}",
                               "{switch: spine0, state: down}",
                               "{link: node1/gpu3, bandwidth: 0.5}",
                               "{link: leaf0/up, bandwidth: 0.25}"};

std::string draw(std::mt19937& random, int which) {
  const std::string cluster = kClusters[which];
  const bool small = cluster.find("nodes: 2") != std::string::npos &&
                     cluster.find("nodes_per") == std::string::npos;
  const bool four =
      cluster.find("polaris") != std::string::npos || cluster.find("tpu") != std::string::npos;
  const int ranks = small ? 16 : four ? 32 : 64;
  const int tensor = 1 << pick(random, 0, four ? 2 : 3);
  const int pipeline = 1 << pick(random, 0, 2);
  const int data = ranks / tensor / pipeline;
  const char* precision = cluster.find("v100") != std::string::npos ? "fp16" : "bf16";
  return fmt::format(
      "model: {{layers: {}, hidden: 1024, heads: 16, kv_heads: 16, head_dim: 64, ffn: 4096, vocab: "
      "32000, max_positions: 1024}}\n"
      "cluster: {}, faults: [{}]}}\n"
      "system: megatron-lm\n"
      "workload: {{sequence_length: 1024, global_batch: {}, micro_batch: 1, precision: {}}}\n"
      "parallelism: {{tensor: {}, pipeline: {}, sharding: zero1, overlap: {{grad_reduce: {}}}}}\n"
      "kernels: {{attention: unfused}}\n",
      4 * pipeline, cluster, kFaults[pick(random, 0, 6)], data * pipeline, precision, tensor,
      pipeline, pick(random, 0, 1) == 1);
}

}  // namespace

TEST_CASE("Folded equals full on every kind of fabric, with faults", "[agree]") {
  std::mt19937 random(3);
  int ran = 0;
  int spines = 0;
  int nodes = 0;
  for (int n = 0; n < 90; ++n) {
    const std::string text = draw(random, n % 9);
    INFO("job " << n << "\n" << text);
    job::Job job;
    try {
      job = config::parse(text, "drawn").job;
    } catch (const InputError&) {
      continue;  // the fault names a part that this fabric does not have
    }
    auto built = cluster::Topology::build(job.cluster, job.seed);
    if (std::holds_alternative<Infeasible>(built)) {
      continue;
    }
    const auto& topology = std::get<cluster::Topology>(built);
    const auto plan = std::get<strategy::Plan>(strategy::resolve(job));
    const auto files = text::data_directory() / "calibration";
    cost::CurveTable curves;
    const cost::Kernels kernels(job.cluster.device, job.kernels.library, files, {}, curves);
    const cost::Collectives collectives(job.cluster, job.nccl, files, {}, curves);
    lower::Prices prices;
    prices.collectives = &collectives;
    prices.curves = &curves;
    prices.kernels[job.cluster.device.name] = &kernels;
    const program::World full = lower::build_world(plan, topology, prices);
    for (const auto& usage : full.usages) {
      spines += usage.kind == static_cast<std::uint32_t>(cluster::ResourceKind::spine) ? 1 : 0;
      nodes += usage.kind == static_cast<std::uint32_t>(cluster::ResourceKind::nvlink) ? 1 : 0;
    }
    const auto folded = lower::fold(full);
    REQUIRE(folded);
    const auto a = engine::run(full);
    const auto b = engine::run(folded->world);
    const auto& slow = std::get<program::Timeline>(a);
    const auto& fast = std::get<program::Timeline>(b);
    CHECK(slow.period == fast.period);
    for (std::size_t r = 0; r < full.ranks.size(); ++r) {
      REQUIRE(slow.ranks[r].breakdown == fast.ranks[folded->class_of[r]].breakdown);
    }
    bound::Bound bound(job, topology, prices);
    const auto least = bound.evaluate(bound::candidate_of(plan));
    REQUIRE(least.feasible);
    CHECK(least.step <= slow.period);
    ++ran;
  }
  CHECK(ran > 60);
  CHECK(spines > 1000);
  CHECK(nodes > 100);
}
