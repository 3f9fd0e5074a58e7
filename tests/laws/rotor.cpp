// Optimal checkpoints of a chain, compared with all possible orders and under changing limits.
#include "stepcast/strategy/rotor.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <random>
#include <tuple>
#include <vector>

#include "catch.hpp"

using namespace stepcast::strategy;

namespace {

// All orders of steps, by Dijkstra's algorithm over the tensors that are held: which inputs, which
// saved tensors, and which stage's input was computed last. It uses no recursion over segments, and
// its only assumption is that a kept tensor is not dropped before its backward pass.
struct State {
  int left = 0;         // stages whose backward pass is still to run
  bool turned = false;  // every stage has run forward
  int made = 0;         // stage whose input was computed last; -1: none
  unsigned inputs = 0, saved = 0;
  auto operator<=>(const State&) const = default;
};

std::int64_t held(const Chain& c, const State& s) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < c.stages.size(); ++i) {
    if ((s.inputs >> i & 1U) != 0) {
      sum += i == 0 ? c.input : c.stages[i - 1].output;
    }
    if ((s.saved >> i & 1U) != 0) {
      sum += c.stages[i].saved;
    }
  }
  return sum;
}

// Least time with at most `kept` held after the forward passes and at most `peak` at any time.
std::optional<std::int64_t> exhaustive(const Chain& c, std::int64_t kept, std::int64_t peak) {
  const int n = static_cast<int>(c.stages.size());
  std::map<State, std::int64_t> least;
  using Entry = std::pair<std::int64_t, State>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  const auto reach = [&](std::int64_t time, const State& s) {
    const auto [it, fresh] = least.try_emplace(s, time);
    if (fresh || time < it->second) {
      it->second = time;
      open.push({time, s});
    }
  };
  reach(0, {n, false, 0, 1U, 0});
  while (!open.empty()) {
    const auto [time, s] = open.top();
    open.pop();
    if (least.at(s) < time) {
      continue;
    }
    if (s.left == 0) {
      return time;
    }
    const std::int64_t now = held(c, s);
    const int j = s.left - 1;
    const auto& last = c.stages[static_cast<std::size_t>(j)];
    if (s.turned && (s.inputs >> j & 1U) != 0 && (s.saved >> j & 1U) != 0 &&
        now + last.gradient + last.backward_extra <= peak) {
      reach(time + last.backward, {j, true, -1, s.inputs & ~(1U << j), s.saved & ~(1U << j)});
    }
    for (int i = 0; i < s.left; ++i) {
      const bool here = (s.inputs >> i & 1U) != 0;
      if (!here && s.made != i) {
        continue;
      }
      const auto& stage = c.stages[static_cast<std::size_t>(i)];
      const std::int64_t own = here ? 0 : c.stages[static_cast<std::size_t>(i) - 1].output;
      const std::int64_t running = now + own + stage.output + (s.turned ? last.gradient : 0);
      State next = s;
      next.made = i + 1;
      const bool turns = !s.turned && next.made == n;
      next.turned = s.turned || turns;
      const auto go = [&](std::int64_t need) {
        if (need <= peak && (!turns || held(c, next) <= kept)) {
          reach(time + stage.forward, next);
        }
      };
      go(running + stage.sweep_extra);  // keeps nothing new
      next.inputs |= 1U << i;
      go(running + stage.sweep_extra);  // keeps its input
      if ((s.saved >> i & 1U) == 0) {
        next.saved |= 1U << i;
        go(running + stage.saved + stage.forward_extra);
      }
    }
  }
  return std::nullopt;
}

Chain random_chain(std::mt19937& r, int n) {
  const auto pick = [&](int low, int high) {
    return std::int64_t{std::uniform_int_distribution<int>(low, high)(r)};
  };
  Chain c;
  c.input = pick(0, 2);
  const bool alike = pick(0, 2) == 0;
  for (int i = 0; i < n; ++i) {
    if (alike && i > 0 && i + 1 < n) {
      c.stages.push_back(c.stages.front());
    } else {
      c.stages.push_back({pick(1, 9), pick(1, 9), pick(0, 4), pick(1, 3), pick(0, 2), pick(0, 2),
                          pick(0, 3), pick(0, 2)});
    }
  }
  return c;
}

std::int64_t everything(const Chain& c) {
  std::int64_t sum = c.input;
  for (const auto& s : c.stages) {
    sum += s.saved + s.output + s.gradient + s.forward_extra + s.sweep_extra + s.backward_extra;
  }
  return sum;
}

}  // namespace

TEST_CASE("Optimal checkpoints of chains of up to six stages equal the best of all orders") {
  std::mt19937 r(7);
  int infeasible = 0;
  int redone = 0;
  for (int round = 0; round < 60; ++round) {
    const Chain c = random_chain(r, 1 + round % 6);
    const std::int64_t all = everything(c);
    for (int part = 1; part <= 6; ++part) {
      const std::int64_t memory = all * part / 6;
      const auto best = exhaustive(c, memory, memory);
      const auto plan = optimal_chain(c, {memory, 0, 1});
      REQUIRE(plan.has_value() == best.has_value());
      infeasible += best ? 0 : 1;
      if (plan) {
        const auto cost = cost_of(c, plan->steps);
        REQUIRE(cost);
        CHECK(cost->time == *best);
        CHECK(cost->time == plan->cost.time);
        CHECK(cost->peak <= memory);
        redone += plan->steps.size() > 2 * c.stages.size() ? 1 : 0;
      }
    }
  }
  CHECK(infeasible > 20);  // the memory limits range from too small to plentiful
  CHECK(redone > 40);
}

TEST_CASE("With micro-batches that wait, the plan is the best of its sizes of what is kept") {
  std::mt19937 r(11);
  int plans = 0;
  for (int round = 0; round < 40; ++round) {
    const Chain c = random_chain(r, 1 + round % 4);
    const int others = 1 + round % 3;
    const std::int64_t all = everything(c);
    for (int part = 1; part <= 4; ++part) {
      const std::int64_t memory = (others + 1) * all * part / 4;  // fewer sizes than are searched
      std::optional<std::int64_t> best;
      for (std::int64_t kept = 0; (others + 1) * kept <= memory; ++kept) {
        const auto one = exhaustive(c, kept, memory - others * kept);
        if (one && (!best || *one < *best)) {
          best = one;
        }
      }
      const auto plan = optimal_chain(c, {memory, others, 1});
      REQUIRE(plan.has_value() == best.has_value());
      if (plan) {
        ++plans;
        CHECK(plan->cost.time == *best);
        CHECK(others * plan->cost.kept + plan->cost.peak <= memory);
      }
    }
  }
  CHECK(plans > 60);
}

TEST_CASE(
    "More memory never makes a plan longer, and none is worse than equal groups or first stages") {
  std::mt19937 r(3);
  for (int round = 0; round < 12; ++round) {
    const int n = 8 + 4 * (round % 3);
    const Chain c = random_chain(r, n);
    const int others = round % 4;
    const std::int64_t least = least_memory(c, others, 1);
    CHECK(!optimal_chain(c, {least - 1, others, 1}));
    std::int64_t before = std::numeric_limits<std::int64_t>::max();
    std::int64_t forwards = 0;
    for (const auto& s : c.stages) {
      forwards += s.forward + s.backward;
    }
    for (std::int64_t memory = least; memory < least + 40; memory += 3) {
      const auto plan = optimal_chain(c, {memory, others, 1});
      REQUIRE(plan);
      CHECK(plan->cost.time <= before);
      CHECK(plan->cost.time >= forwards);
      before = plan->cost.time;
    }
    for (int g = 1; g <= n; ++g) {
      for (const auto& steps : {redo_in_groups(c, g), redo_first(c, g)}) {
        const auto other = cost_of(c, steps);
        REQUIRE(other);
        // In slots of three, where rounding alone would exclude some plans.
        const auto plan = optimal_chain(c, {others * other->kept + other->peak, others, 3});
        REQUIRE(plan);
        CHECK(plan->cost.time <= other->time);
      }
    }
    const auto whole = optimal_chain(c, {(others + 1) * everything(c), others, 1});
    REQUIRE(whole);
    CHECK(whole->cost.time == forwards);
  }
}

TEST_CASE("Little memory makes forwards run again inside forwards that run again") {
  // Eight equal stages with large saved tensors: only two inputs fit in addition to one of those.
  Chain c;
  c.stages.assign(8, {1, 1, 20, 1, 0, 0, 0, 0});
  c.input = 1;
  const auto plan = optimal_chain(c, {least_memory(c, 0, 1), 0, 1});
  REQUIRE(plan);
  // Only one input is held throughout: stage i runs forward once for each later stage and once
  // more.
  CHECK(plan->cost.time > 8 * 2 + 8);
  int most = 0;
  for (int i = 0; i < 8; ++i) {
    most = std::max(most, static_cast<int>(std::count_if(
                              plan->steps.begin(), plan->steps.end(), [&](const ChainStep& s) {
                                return s.stage == i && s.kind != ChainStep::Kind::backward;
                              })));
  }
  CHECK(most > 2);
}

TEST_CASE(
    "The solver's tables are bounded, however long a chain and however large its transients") {
  constexpr std::int64_t kMiB = 1 << 20;
  for (const int stages : {1, 32, 223, 1000, 10000}) {
    for (const std::int64_t transient : {std::int64_t{0}, kMiB, 100'000 * kMiB}) {
      Chain chain;
      chain.input = kMiB;
      chain.stages.assign(static_cast<std::size_t>(stages),
                          {.saved = kMiB, .output = kMiB, .backward_extra = transient});
      const std::int64_t whole = kMiB * (2 * stages + 1);
      const std::int64_t unit = solver_unit(chain, whole);
      const std::int64_t units = enough(chain) / unit;
      CHECK(unit >= 512);
      CHECK(units <= 16'001);
      CHECK((units - 1) * stages * stages <= 800'000'000);
      if (transient == 0 && stages <= 223) {  // as fine as what is kept wants it
        CHECK(unit == std::max<std::int64_t>(512, whole / 4000));
      }
    }
  }
}
