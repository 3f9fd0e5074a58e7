// Memory outside the allocator: its parts add up, and communicators never release memory.
#include <fmt/format.h>

#include "catch.hpp"
#include "stepcast/cost/buffers.h"
#include "support/lowered.h"

using namespace stepcast;

namespace {

constexpr double kMiB = 1024.0 * 1024;

support::Lowered lowered(const std::string& cluster, int nodes, const std::string& system,
                         const std::string& parallelism, const std::string& more = "") {
  return support::Lowered(fmt::format(
      "model: {{layers: 8, hidden: 1024, heads: 16, kv_heads: 16, head_dim: 64, ffn: 4096, vocab: "
      "32000, max_positions: 1024, tied_embeddings: false}}\ncluster: {{use: {}, nodes: "
      "{}}}\nsystem: {}\nworkload: {{sequence_length: 1024, global_batch: 64}}\nparallelism: "
      "{}\n{}",
      cluster, nodes, system, parallelism, more));
}

double total(const support::Lowered& l) {
  return static_cast<double>(l.program().outside_allocator.count());
}

}  // namespace

TEST_CASE("Parts outside the allocator add up", "[laws]") {
  for (const char* parallelism :
       {"{}", "{tensor: 2}", "{tensor: 2, pipeline: 2}", "{pipeline: 4, context: 2}"}) {
    const auto l = lowered("dgx-h100", 2, "megatron-lm", parallelism);
    for (const program::Program& p : l.world.programs) {
      std::int64_t sum = 0;
      for (const auto& [name, bytes] : p.outside_parts) {
        INFO(name);
        CHECK(bytes.count() > 0);
        sum += bytes.count();
      }
      CHECK(sum == p.outside_allocator.count());
      CHECK(p.outside_parts.front().first == "CUDA context and kernels");
    }
  }
}

TEST_CASE("Eight B200 under FSDP2 hold 1.65 GiB outside the allocator", "[laws]") {
  // 1.65 to 1.67 GiB of memory that is not PyTorch's in 11 of 16 out-of-memory reports of
  // torchtitan on 8 x B200, NCCL 2.29.7: a context, the mesh's rings and NVLS, the rings of the
  // world's group.
  const auto l = lowered("dgx-b200", 1, "torchtitan", "{sharding: zero3}");
  CHECK(total(l) / (1024 * kMiB) > 1.6);
  CHECK(total(l) / (1024 * kMiB) < 1.7);
}

TEST_CASE("One GPU has a context alone", "[laws]") {
  const auto l = lowered("dgx-h100, gpus_per_node: 1", 1, "pytorch-ddp", "{}");
  CHECK(l.program().outside_parts.size() == 1);
}

TEST_CASE("More communicators, algorithms and ranks never take less", "[laws]") {
  CHECK(total(lowered("dgx-h100", 2, "megatron-lm", "{tensor: 2}")) >
        total(lowered("dgx-h100", 2, "megatron-lm", "{}")));
  const auto staged = lowered("dgx-h100", 2, "megatron-lm", "{tensor: 2, pipeline: 2}");
  CHECK(staged.program().outside_parts.back().first == "NCCL: pipeline");
  CHECK(total(lowered("dgx-h100", 2, "megatron-lm", "{}", "nccl: {max_ctas: 8}\n")) <
        total(lowered("dgx-h100", 2, "megatron-lm", "{}")));

  cluster::GroupShape g;
  g.domains = 1;
  g.nodes = 1;
  g.nvlink = Bandwidth(450e9);
  g.compute_capability = 9;
  g.nvls = true;
  const auto bytes = [&](int ranks, unsigned used) {
    g.ranks = g.ranks_per_domain = ranks;
    return static_cast<double>(cost::nccl_buffers({}, g, used).count());
  };
  using cost::Algorithm;
  const unsigned ring = cost::bit(Algorithm::ring);
  const unsigned nvls = cost::bit(Algorithm::nvls);
  CHECK(bytes(1, ring) == 0);
  CHECK(bytes(8, 0) == 0);
  // A ring has one connection per channel: 512 KiB + 4.6875 MiB + 4 MiB.
  const double connection = (0.5 + 4.6875 + 4) * kMiB;
  const double channels = bytes(8, ring) / connection;
  CHECK(channels == Approx(std::round(channels)).epsilon(1e-12));
  CHECK(bytes(8, nvls) == 16 * 2 * kMiB * 8);  // sm90: 16 channels, 8 heads
  CHECK(bytes(8, ring | nvls) == bytes(8, ring) + bytes(8, nvls));
  double last = 0;
  for (int ranks = 2; ranks <= 8; ranks *= 2) {
    const double now = bytes(ranks, ring | nvls | cost::bit(Algorithm::pairwise));
    CHECK(now > last);
    last = now;
  }
  // Up to version 2.21, NCCL connects rings and trees when it makes the communicator.
  job::Nccl old;
  old.version = "2.18.3";
  CHECK(cost::nccl_buffers(old, g, ring).count() > cost::nccl_buffers({}, g, ring).count());
}

TEST_CASE("Fused collectives of torch's tensor ranks share two chunks of a result", "[laws]") {
  const std::string parallelism =
      "{{tensor: 4, sequence_parallel: true, sharding: zero3, overlap: {{tensor: {}}}}}";
  const auto shared = [&](const char* overlap) {
    double bytes = 0;
    const auto l =
        lowered("dgx-h100", 1, "torchtitan", fmt::format(fmt::runtime(parallelism), overlap));
    for (const auto& [name, part] : l.program().outside_parts) {
      bytes += name == "symmetric memory" ? static_cast<double>(part.count()) : 0;
    }
    return bytes;
  };
  // 1024 tokens in four shards, 1024 wide, in 16 bits: 1 MiB, which is part of a page of 2 MiB.
  CHECK(shared("async") == 2 * kMiB);
  CHECK(shared("none") == 0);
}

TEST_CASE("A TPU has neither a context nor an allocator's cache", "[laws]") {
  const auto l = lowered("tpu-v5p", 4, "maxtext", "{}");
  CHECK(total(l) == 0);
  CHECK(l.plan.device_memory.allocator == AllocatorKind::compiled);
}
