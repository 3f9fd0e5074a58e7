// Integer programs for one choice per operator, compared with brute force on random graphs.
#include "automatic/choice/ilp.h"

#include <algorithm>
#include <random>

#include "automatic/choice/choice.h"
#include "automatic/infinity.h"
#include "catch.hpp"

namespace stepcast::automatic {
namespace {

// Tries all combinations with the quadratic objective itself.
Chosen brute_force(const ChoiceProblem& p) {
  Chosen best;
  std::vector<int> at(p.nodes.size(), 0);
  for (;;) {
    const double cost = cost_of(p, at);
    const double memory = memory_of(p, at);
    if (cost < kInfinity && memory <= p.memory_limit && (!best.feasible || cost < best.cost)) {
      best = {true, true, at, cost, memory};
    }
    std::size_t i = 0;
    while (i < at.size() && ++at[i] == static_cast<int>(p.nodes[i].size())) {
      at[i++] = 0;
    }
    if (i == at.size()) {
      return best;
    }
  }
}

ChoiceProblem random_problem(std::mt19937_64& random, double forbidden) {
  std::uniform_real_distribution<double> unit(0, 1);
  ChoiceProblem p;
  const int nodes = 2 + static_cast<int>(random() % 5);
  for (int i = 0; i < nodes; ++i) {
    ChoiceNode n;
    const int choices = 1 + static_cast<int>(random() % 4);
    for (int c = 0; c < choices; ++c) {
      n.cost.push_back(1e-3 * unit(random));
      n.memory.push_back(1e9 * unit(random));
    }
    p.nodes.push_back(n);
  }
  for (int to = 1; to < nodes; ++to) {
    for (int from = 0; from < to; ++from) {
      if (from + 1 != to && unit(random) > 0.4) {
        continue;
      }
      ChoiceEdge e;
      e.from = from;
      e.to = to;
      std::size_t rows = p.nodes[static_cast<std::size_t>(from)].size();
      std::size_t columns = p.nodes[static_cast<std::size_t>(to)].size();
      if (random() % 2 == 0) {  // choices that the edge does not distinguish are marked as one kind
        rows = 1 + random() % rows;
        columns = 1 + random() % columns;
        const auto kinds = [&](std::size_t node, std::size_t n) {
          std::vector<int> kind;
          for (std::size_t c = 0; c < p.nodes[node].size(); ++c) {
            kind.push_back(static_cast<int>(c < n ? c : random() % n));
          }
          return kind;
        };
        e.from_kind = kinds(static_cast<std::size_t>(from), rows);
        e.to_kind = kinds(static_cast<std::size_t>(to), columns);
        e.columns = static_cast<int>(columns);
      }
      for (std::size_t k = 0; k < rows * columns; ++k) {
        // With few distinct prices, edges often do not distinguish choices, which is common in
        // practice.
        e.cost.push_back(unit(random) < forbidden ? kInfinity
                                                  : 1e-4 * static_cast<double>(random() % 4));
      }
      p.edges.push_back(e);
    }
  }
  return p;
}

TEST_CASE("the integer program finds what brute force finds") {
  if (!have_ilp_solver()) {
    WARN("no solver of integer programs in this build");
    return;
  }
  std::mt19937_64 random(8);
  int infeasible = 0, bound = 0;
  for (int round = 0; round < 400; ++round) {
    ChoiceProblem p = random_problem(random, round % 3 == 0 ? 0.3 : 0);
    if (round % 2 == 0) {  // a limit between the smallest and the largest
      double least = 0, most = 0;
      for (const ChoiceNode& n : p.nodes) {
        least += *std::min_element(n.memory.begin(), n.memory.end());
        most += *std::max_element(n.memory.begin(), n.memory.end());
      }
      p.memory_limit = least + (most - least) * 0.1 * static_cast<double>(random() % 8) -
                       (round % 10 == 0 ? 1e6 : 0);
    }
    const Chosen expected = brute_force(p);
    const Chosen found = choose_by_ilp(p);
    INFO("round " << round);
    REQUIRE(found.proven);
    REQUIRE(found.feasible == expected.feasible);
    if (!expected.feasible) {
      ++infeasible;
      continue;
    }
    CHECK(found.cost == Approx(expected.cost).epsilon(1e-9).margin(1e-15));
    CHECK(found.memory <= p.memory_limit * (1 + kMemoryTolerance));
    ChoiceProblem free = p;
    free.memory_limit = kInfinity;
    bound += brute_force(free).cost < expected.cost * (1 - 1e-9) ? 1 : 0;
  }
  CHECK(infeasible > 5);  // the test must reach infeasible cases
  CHECK(bound > 20);
}

TEST_CASE("without a limit, elimination finds what brute force finds") {
  std::mt19937_64 random(5);
  for (int round = 0; round < 400; ++round) {
    const ChoiceProblem p = random_problem(random, round % 2 == 0 ? 0.3 : 0);
    const Chosen expected = brute_force(p);
    const auto found = choose_by_elimination(p);
    INFO("round " << round);
    REQUIRE(found);
    REQUIRE(found->feasible == expected.feasible);
    if (expected.feasible) {
      CHECK(found->cost == Approx(expected.cost).epsilon(1e-9).margin(1e-15));
    }
  }
}

TEST_CASE("relaxation brackets what brute force finds") {
  std::mt19937_64 random(6);
  int tight = 0, open = 0;
  for (int round = 0; round < 300; ++round) {
    ChoiceProblem p = random_problem(random, 0);
    double least = 0, most = 0;
    for (const ChoiceNode& n : p.nodes) {
      least += *std::min_element(n.memory.begin(), n.memory.end());
      most += *std::max_element(n.memory.begin(), n.memory.end());
    }
    p.memory_limit = least + (most - least) * 0.1 * static_cast<double>(1 + random() % 8);
    const Chosen expected = brute_force(p);
    const auto found = choose_by_relaxation(p);
    INFO("round " << round);
    REQUIRE(found);
    REQUIRE(expected.feasible);
    CHECK(found->bound <= expected.cost * (1 + 1e-9));
    if (found->chosen.feasible) {
      CHECK(found->chosen.memory <= p.memory_limit);
      CHECK(found->chosen.cost >= expected.cost * (1 - 1e-9));
      tight += found->chosen.cost <= expected.cost * (1 + 1e-9) ? 1 : 0;
      open += found->chosen.cost > expected.cost * (1 + 1e-9) ? 1 : 0;
    }
  }
  CHECK(tight > 150);
  CHECK(open > 0);  // this gap is the reason that integer programs settle the stages of a plan
}

TEST_CASE("an edge from an operator to itself is a loop of alike layers") {
  if (!have_ilp_solver()) {
    WARN("no solver of integer programs in this build");
    return;
  }
  ChoiceProblem p;
  p.nodes = {{{1, 2}, {0, 0}}};
  p.edges.emplace_back();
  p.edges.back().cost = {5, 0, 0, 3};
  const Chosen found = choose_by_ilp(p);
  CHECK(found.choice == std::vector<int>{1});
  CHECK(found.cost == 5);
}

}  // namespace
}  // namespace stepcast::automatic
