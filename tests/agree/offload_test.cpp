// Jobs that offload, drawn at random with a fixed seed: the folded equals the full simulation,
// breakdowns add up, and folding keeps the bytes on the host.
#include <fmt/format.h>

#include <numeric>
#include <random>

#include "catch.hpp"
#include "stepcast/engine/engine.h"
#include "stepcast/lower/fold.h"
#include "support/lowered.h"

using namespace stepcast;

namespace {

template <class T>
T pick(std::mt19937& random, std::initializer_list<T> choices) {
  return choices.begin()[std::uniform_int_distribution<std::size_t>(0, choices.size() - 1)(random)];
}

std::string draw(std::mt19937& random) {
  const int nodes = pick(random, {1, 2});
  const char* system =
      pick(random, {"deepspeed", "pytorch-fsdp2", "pytorch-fsdp1", "megatron-lm", "angel-ptm"});
  const bool megatron = std::string(system) == "megatron-lm";
  const bool stages = megatron && pick(random, {0, 1}) != 0;
  const bool whole = std::string(system) == "deepspeed" && pick(random, {0, 1}) != 0;
  const char* sharding = megatron ? "zero1" : whole ? pick(random, {"zero1", "zero2"}) : "zero3";
  std::string offload =
      fmt::format("optimizer: {}", pick(random, {"cpu", "nvme", "{to: cpu, ratio: 0.3}", "none"}));
  if (std::string(sharding) == "zero3") {
    offload += fmt::format(", parameters: {}",
                           pick(random, {"cpu", "nvme", "{to: cpu, ratio: 0.5}", "none"}));
  }
  if (!megatron && pick(random, {0, 1}) != 0) {
    offload += fmt::format(", gradients: {}", pick(random, {"cpu", "nvme", "none"}));
  }
  offload +=
      fmt::format(", prefetch: {}, overlap: {}, pinned: {}", pick(random, {0, 1, 2}),
                  pick(random, {"true", "true", "false"}), pick(random, {"true", "true", "false"}));
  offload += fmt::format(", activations: {}", pick(random, {"cpu", "nvme", "none", "none"}));
  if (pick(random, {0, 1}) != 0) {
    offload += fmt::format(", chunk: {}", pick(random, {"16 MiB", "64 MiB"}));
  }
  const int micro_batches = pick(random, {1, 2, 3}) * (stages ? 2 : 1);
  const int data = nodes * 8 / (stages ? 4 : megatron ? 2 : 1);
  return fmt::format(
      "model: {{layers: 4, hidden: 1024, heads: 16, ffn: 4096, vocab: 32000, max_positions: 1024, "
      "gated_mlp: false}}\n"
      "cluster: {{use: dgx-a100, nodes: {}, node: {{use: dgx-a100, pcie_switches: {}}}}}\n"
      "system: {}\n"
      "workload: {{sequence_length: 1024, global_batch: {}, micro_batch: 1}}\n"
      "parallelism: {{tensor: {}, pipeline: {}, sharding: {}}}\n"
      "memory: {{recompute: {}, offload: {{{}}}}}\n",
      nodes, pick(random, {0, 4}), system, data * micro_batches, megatron ? 2 : 1, stages ? 2 : 1,
      sharding, pick(random, {"none", "full"}), offload);
}

}  // namespace

TEST_CASE("Folded equals full on jobs that offload", "[agree]") {
  std::mt19937 random(20261121);
  int folded_smaller = 0;
  for (int n = 0; n < 60; ++n) {
    const std::string text = draw(random);
    INFO("job " << n << "\n" << text);
    const support::Lowered l(text, true);
    const auto folded = lower::fold(l.world);
    REQUIRE(folded);
    const auto a = engine::run(l.world);
    const auto b = engine::run(folded->world);
    if (const auto* deadlock = std::get_if<program::Deadlock>(&a)) {
      for (const auto& line : deadlock->chain) {
        UNSCOPED_INFO(line);
      }
    }
    const auto* slow = std::get_if<program::Timeline>(&a);
    const auto* fast = std::get_if<program::Timeline>(&b);
    REQUIRE(slow != nullptr);
    REQUIRE(fast != nullptr);
    CHECK(slow->period == fast->period);
    CHECK(slow->periodic == fast->periodic);
    for (std::size_t r = 0; r < l.world.ranks.size(); ++r) {
      const auto& x = slow->ranks[r];
      const auto& y = fast->ranks[folded->class_of[r]];
      REQUIRE(x.breakdown == y.breakdown);
      REQUIRE(x.peak_allocated == y.peak_allocated);
      REQUIRE(x.host_peak == y.host_peak);
      REQUIRE(x.nvme_peak == y.nvme_peak);
      if (slow->periodic) {
        REQUIRE(std::accumulate(x.breakdown.begin(), x.breakdown.end(), Time{0}) == slow->period);
      }
    }
    folded_smaller += folded->world.ranks.size() < l.world.ranks.size() ? 1 : 0;
  }
  CHECK(folded_smaller > 40);
}
