// Random jobs with unequal batches on different devices: the folded equals the full simulation,
// times add up, memory is released, and the bound is below the engine.
#include <fmt/format.h>

#include <map>
#include <numeric>
#include <optional>
#include <random>

#include "catch.hpp"
#include "stepcast/bound/bound.h"
#include "stepcast/engine/engine.h"
#include "stepcast/lower/fold.h"
#include "support/lowered.h"
#include "support/run_world.h"

using namespace stepcast;
using support::Lowered;
using support::run;

namespace {

template <class T>
T pick(std::mt19937& random, std::initializer_list<T> choices) {
  return choices.begin()[random() % choices.size()];
}

std::string draw(std::mt19937& random) {
  const int nodes = pick(random, {2, 3, 4});
  const int tensor = pick(random, {2, 4, 8});
  int pipeline = pick(random, {1, 2, 4});
  const int ranks = nodes * 8;
  if (ranks / tensor % pipeline != 0 || ranks / tensor / pipeline < 2) {
    pipeline = 1;
  }
  const int data = ranks / tensor / pipeline;
  const std::string schedule =
      pipeline == 1 ? "1f1b"
                    : pick<const char*>(random, {"1f1b", "1f1b", "gpipe", "interleaved_1f1b",
                                                 "zb_h1", "zb_v", "zb_auto", "looped_bfs"});
  const bool chunked = schedule == "interleaved_1f1b" || schedule == "looped_bfs";
  const int grain = pipeline == 1 ? 1 : schedule == "1f1b" || schedule == "gpipe" ? 1 : pipeline;
  std::string numbers;
  int sum = 0;
  for (int d = 0; d < data; ++d) {
    const int n = grain * (1 + static_cast<int>(random() % 3) + (d == 0 ? 3 : 0));
    numbers += fmt::format("{}{}", d == 0 ? "" : ", ", n);
    sum += n;
  }
  const bool zero1 = random() % 2 == 0;
  const bool overlap = random() % 2 == 0;
  const int slow = 1 + static_cast<int>(random() % static_cast<unsigned>(nodes - 1));
  return fmt::format(
      "model: {{layers: {}, hidden: 1024, heads: 16, kv_heads: 16, head_dim: 64, ffn: 4096, vocab: "
      "32000, max_positions: 1024, tied_embeddings: {}}}\n"
      "cluster: {{use: dgx-h100, nodes: {}, order: {}, overrides: [{{first: {}, count: {}, device: "
      "a100-sxm-80}}]}}\n"
      "system: {{use: {}, schedules: [], cannot: {{}}}}\n"
      "workload: {{sequence_length: 1024, global_batch: {}, micro_batches: [{}]}}\n"
      "parallelism: {{tensor: {}, pipeline: {}, virtual_pipeline: {}, schedule: {}, sharding: {}, "
      "overlap: {{grad_reduce: {}, param_gather: {}}}}}\n"
      "memory: {{recompute: {}}}\n",
      4 * pipeline, random() % 2 == 0, nodes,
      pick<const char*>(random, {"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp"}), slow, nodes - slow,
      pick<const char*>(random, {"megatron-lm", "megatron-lm", "pytorch-ddp", "deepspeed"}), sum,
      numbers, tensor, pipeline, chunked || schedule == "zb_v" ? 2 : 1, schedule,
      zero1 ? "zero1" : "none", overlap, overlap && zero1,
      pick<const char*>(random, {"none", "full", "selective"}));
}

// Checks the laws on a job. Returns the reason if it cannot be planned; `smaller` tells whether
// folding left fewer ranks.
std::optional<Infeasible> hold(const std::string& text, bool& smaller) {
  const auto resolved = strategy::resolve(config::parse(text, "job").job);
  if (const auto* why = std::get_if<Infeasible>(&resolved)) {
    return *why;
  }
  const Lowered lowered(text, true);
  REQUIRE(!lowered.plan.batches.empty());
  const program::World& full = lowered.world;
  const auto folded = lower::fold(full);
  REQUIRE(folded);
  const program::Timeline slow = run(full);
  const program::Timeline fast = run(folded->world);
  CHECK(slow.period == fast.period);
  CHECK(slow.first_step == fast.first_step);
  std::int64_t fullest = 0;
  std::map<std::uint32_t, program::ProgramId> program_of;  // by class
  for (std::size_t r = 0; r < full.ranks.size(); ++r) {
    const auto& x = slow.ranks[r];
    const auto& y = fast.ranks[folded->class_of[r]];
    REQUIRE(x.breakdown == y.breakdown);
    REQUIRE(x.peak_allocated == y.peak_allocated);
    REQUIRE(x.steady == y.steady);
    const auto sum = std::accumulate(x.breakdown.begin(), x.breakdown.end(), Time{0});
    if (slow.periodic) {
      REQUIRE(sum == slow.period);
    }
    fullest = std::max(fullest, x.peak_allocated.count());
    // Ranks with different numbers of micro-batches are not in one class.
    const auto [known, fresh] = program_of.try_emplace(folded->class_of[r], full.ranks[r].program);
    REQUIRE(known->second == full.ranks[r].program);
  }
  smaller = folded->world.ranks.size() < full.ranks.size();
  for (const program::Program& p : full.programs) {
    std::vector<int> balance(p.buffers.size(), 0);
    for (const auto& op : p.host) {
      balance[op.buffer] += op.kind == program::HostKind::allocate  ? 1
                            : op.kind == program::HostKind::release ? -1
                                                                    : 0;
    }
    for (std::size_t b = 0; b < balance.size(); ++b) {
      INFO(p.name << ": " << p.labels[p.buffers[b].label]);
      REQUIRE(balance[b] == 0);
    }
  }
  bound::Bound bound(lowered.job, lowered.topology(), lowered.prices);
  const auto candidate = bound::candidate_of(lowered.plan);
  const auto least = bound.evaluate(candidate);
  REQUIRE(least.feasible);
  CHECK(least.step <= slow.period);
  CHECK(least.step > slow.period / 20);
  CHECK(least.memory.count() <= fullest);
  CHECK(bound.refine(candidate).step <= slow.period);
  return std::nullopt;
}

}  // namespace

TEST_CASE("Unlike batches: folded equals full, time adds up, memory comes back, the bound is below",
          "[agree]") {
  std::mt19937 random(20261122);
  int ran = 0, smaller = 0;
  for (int n = 0; n < 60; ++n) {
    const std::string text = draw(random);
    INFO("job " << n << "\n" << text);
    bool fewer = false;
    if (const auto why = hold(text, fewer)) {
      UNSCOPED_INFO(why->key << ": " << why->reason);
      continue;
    }
    ++ran;
    smaller += fewer ? 1 : 0;
  }
  CHECK(ran >= 50);
  CHECK(smaller > ran / 2);
}

TEST_CASE("So do forms of parallelism and memory that share ranks or steps", "[agree]") {
  const auto text_of = [](const std::string& model, const std::string& numbers, int sum,
                          const std::string& more) {
    return fmt::format(
        "model: {{layers: 8, hidden: 1024, heads: 16, kv_heads: 16, head_dim: 64, ffn: 4096, "
        "vocab: 32000, max_positions: 1024{}}}\n"
        "cluster: {{use: dgx-h100, nodes: 2, overrides: [{{first: 1, count: 1, device: "
        "a100-sxm-80}}]}}\n"
        "workload: {{sequence_length: 1024, global_batch: {}, micro_batches: {}}}\n{}\n",
        model, sum, numbers, more);
  };
  const std::string any = "system: {use: megatron-lm, schedules: [], cannot: {}}\n";
  const std::string moe = ", moe: {experts: 8, topk: 2, ffn: 2048}";
  const std::string jobs[] = {
      // Experts are sharded over two ranks with the same number of micro-batches.
      text_of(moe, "[4, 4, 2, 2]", 12,
              any + "parallelism: {tensor: 4, expert: 2, sequence_parallel: true}"),
      text_of("", "[4, 2]", 6, any + "parallelism: {tensor: 4, context: 2}"),
      text_of("", "[16, 8]", 24, any + "parallelism: {tensor: 2, pipeline: 4, schedule: dualpipe}"),
      text_of("", "[8, 4]", 12, any + "parallelism: {tensor: 2, pipeline: 4, schedule: chimera}"),
      text_of("", "[9, 4]", 13,
              any + "parallelism: {tensor: 2, pipeline: 4, schedule: zb_h2, sharding: zero1}"),
      text_of("", "[9, 4]", 13,
              any + "parallelism: {tensor: 2, pipeline: 4, schedule: 1f1b+vocab_1}"),
      text_of("", "[9, 4]", 13,
              any + "parallelism: {tensor: 2, pipeline: 4}\nmemory: {recompute: full, "
                    "whole_micro_batches: 1}"),
      text_of("", "[5, 1]", 6,
              "system: deepspeed\nparallelism: {tensor: 8, sharding: zero1}\nmemory: {offload: "
              "{optimizer: cpu}}"),
      text_of("", "[5, 1]", 6,
              any + "parallelism: {tensor: 8}\nmemory: {offload: {activations: cpu}}"),
  };
  for (const std::string& text : jobs) {
    INFO(text);
    bool fewer = false;
    if (const auto why = hold(text, fewer)) {
      FAIL_CHECK(why->key << ": " << why->reason);
    }
  }
}
