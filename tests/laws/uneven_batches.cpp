// Data-parallel ranks that run different numbers of micro-batches and communicate once, to reduce
// gradients.
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "catch.hpp"
#include "stepcast/engine/engine.h"
#include "support/lowered.h"
#include "support/run_world.h"

using namespace stepcast;
using support::Lowered;
using support::run;

namespace {

// Two data-parallel ranks on one node each. `overrides` apply to the cluster.
std::string text_of(int sum, const std::string& batches, const std::string& overrides,
                    const std::string& parallelism = "") {
  return fmt::format(
      "model: {{layers: 4, hidden: 2048, heads: 16, kv_heads: 16, head_dim: 128, ffn: 8192, "
      "vocab: 32000, max_positions: 1024}}\n"
      "cluster: {{use: dgx-b200, nodes: 2, order: tp-cp-ep-pp-dp, overrides: [{}]}}\n"
      "system: {{use: megatron-lm, launch: 0 us}}\n"
      "workload: {{sequence_length: 1024, global_batch: {}, micro_batches: {}}}\n"
      "parallelism: {{tensor: 8, pipeline: 1, overlap: {{tensor: none, grad_reduce: false, "
      "param_gather: false}}{}}}\n",
      overrides, sum, batches, parallelism);
}

// Messages take no time.
std::int64_t period(int first, int second, const std::string& overrides) {
  Lowered lowered(text_of(first + second, fmt::format("[{}, {}]", first, second), overrides));
  lowered.free_links();
  return run(lowered.world).period.count();
}

constexpr const char* kSecondSlow = "{first: 1, count: 1, device: h100-sxm}";
constexpr const char* kBothSlow = "{first: 0, count: 2, device: h100-sxm}";

std::int64_t of(const program::RankResult& r, program::Category c) {
  return r.breakdown[static_cast<std::size_t>(c)].count();
}

}  // namespace

TEST_CASE("On like devices a step takes as long as one of the most micro-batches on every rank") {
  const std::vector<std::pair<int, int>> numbers = {{1, 2}, {3, 1}, {5, 2}};
  for (const auto& [a, b] : numbers) {
    CHECK(period(a, b, "") == period(std::max(a, b), std::max(a, b), ""));
  }
}

TEST_CASE("On unlike devices it takes what the last kind takes with its number") {
  // The slower device ends last, so the number of micro-batches of the faster one has no effect.
  const std::int64_t slow = period(4, 4, kBothSlow);
  for (const int fast : {1, 2, 4}) {
    CHECK(period(fast, 4, kSecondSlow) == slow);
  }
  // The faster one ends last, so one more micro-batch there adds its full time.
  const std::int64_t each = period(17, 17, "") - period(16, 16, "");
  CHECK(period(17, 2, kSecondSlow) - period(16, 2, kSecondSlow) == each);
  CHECK(period(16, 2, kSecondSlow) == period(16, 1, kSecondSlow));
  CHECK(period(16, 2, kSecondSlow) >= period(16, 16, ""));
}

TEST_CASE("Numbers in proportion to speed: both kinds end together, and neither waits") {
  const auto exact = [](int few) {
    Lowered lowered(text_of(8 + few, fmt::format("[8, {}]", few), ""));
    lowered.free_links();
    // The second rank's passes take twice as long as the first's: a device of half the speed.
    const auto second = lowered.world.ranks.back().program;
    REQUIRE(second != lowered.world.ranks.front().program);
    for (program::Program& p : lowered.world.programs) {
      for (program::HostOp& op : p.host) {
        op.duration = Time{0};
      }
    }
    for (program::Task& t : lowered.world.programs[second].tasks) {
      t.duration *= t.micro_batch != 0xffff ? 2 : 1;
    }
    return run(lowered.world);
  };
  const auto waits = [](const program::RankResult& r) {
    return of(r, program::Category::stall) + of(r, program::Category::bubble) +
           of(r, program::Category::data) + of(r, program::Category::other);
  };
  const program::Timeline balanced = exact(4);
  CHECK(waits(balanced.ranks.front()) == waits(balanced.ranks.back()));
  const std::int64_t least = waits(balanced.ranks.front());
  // With one fewer there, the second rank waits for the time of one of its micro-batches.
  const program::Timeline fewer = exact(3);
  CHECK(fewer.period == balanced.period);
  CHECK(waits(fewer.ranks.front()) == least);
  const auto busy = [](const program::RankResult& r) { return of(r, program::Category::compute); };
  CHECK(waits(fewer.ranks.back()) - least ==
        busy(balanced.ranks.back()) - busy(fewer.ranks.back()));
  // With one more, the first rank waits, and the step is longer by that time.
  const program::Timeline more = exact(5);
  CHECK((more.period - balanced.period).count() ==
        busy(more.ranks.back()) - busy(balanced.ranks.back()));
}

TEST_CASE("Equal numbers are the default, and a number by device is that of its ranks") {
  const Lowered even(text_of(8, "even", kSecondSlow));
  const Lowered listed(text_of(8, "[4, 4]", kSecondSlow));
  CHECK(listed.plan.batches.empty());
  CHECK(listed.plan.micro_batches == 4);
  REQUIRE(even.world.programs.size() == listed.world.programs.size());
  const auto a = run(even.world), b = run(listed.world);
  CHECK(a.period == b.period);
  CHECK(a.events == b.events);

  const Lowered by_rank(text_of(8, "[6, 2]", kSecondSlow));
  const Lowered by_device(text_of(8, "{b200-sxm: 6, h100-sxm: 2}", kSecondSlow));
  CHECK(by_device.plan.batch_of == by_rank.plan.batch_of);
  CHECK(by_device.plan.batch_of == std::vector<int>{0, 1});
  CHECK(by_device.plan.all_micro_batches() == 8);
  CHECK(run(by_rank.world).period == run(by_device.world).period);
}

TEST_CASE("A rank sends its gradients once a step, whatever its number of micro-batches") {
  for (const char* sharding : {", sharding: none", ", sharding: zero1"}) {
    const Lowered one(text_of(8, "[4, 4]", "", sharding));
    const Lowered other(text_of(8, "[7, 1]", "", sharding));
    for (const std::size_t rank : {std::size_t{0}, std::size_t{8}}) {
      CHECK(other.sent(program::Category::data, "gradients", rank).bytes ==
            one.sent(program::Category::data, "gradients", rank).bytes);
    }
    const auto sent = [](const Lowered& of, std::size_t rank) {
      return of.sent(program::Category::tensor, "", rank).count;
    };
    // Tensor-parallel messages per micro-batch: seven on the first rank, one on the second.
    CHECK(sent(other, 0) > sent(one, 0));
    CHECK(sent(other, 0) - sent(one, 0) == sent(one, 8) - sent(other, 8));
  }
}
