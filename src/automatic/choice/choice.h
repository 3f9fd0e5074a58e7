// One choice for each operator of a graph that makes the sum of the operators' costs, and of their
// edges' costs under the choices at both ends, least. Alpa, nnScaler and FlexFlow all solve this.
//
// LAW  min sum_i c_i . s_i + sum_(i,j) s_i^T R_ij s_j, s_i one-hot, subject to sum_i m_i . s_i <= M
//      (Gao et al.'s equation 1; Alpa, Zheng et al., OSDI 2022, equation 1).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "../infinity.h"

namespace stepcast::automatic {

struct ChoiceNode {
  std::vector<double> cost;    // seconds, of each choice
  std::vector<double> memory;  // bytes
  std::size_t size() const { return cost.size(); }
};

// `cost`: row-major, [kind of `from`'s choice][kind of `to`'s choice]; infinity where the two
// exclude each other.
struct ChoiceEdge {
  int from = 0;
  int to = 0;
  std::vector<double> cost;
  // The kind of each choice at either end, counted from 0: choices that cost the same on this edge
  // share a kind. Empty: each choice is its own kind.
  std::vector<int> from_kind, to_kind;
  int columns = 0;  // kinds of `to`'s choices; 0: as many as choices

  std::size_t row(int choice) const {
    return static_cast<std::size_t>(
        from_kind.empty() ? choice : from_kind[static_cast<std::size_t>(choice)]);
  }
  std::size_t column(int choice) const {
    return static_cast<std::size_t>(to_kind.empty() ? choice
                                                    : to_kind[static_cast<std::size_t>(choice)]);
  }
};

struct ChoiceProblem {
  std::vector<ChoiceNode> nodes;
  std::vector<ChoiceEdge> edges;
  double memory_limit = kInfinity;
};

// A solver keeps the memory limit to this share of it.
inline constexpr double kMemoryTolerance = 1e-6;

struct Chosen {
  bool feasible = false;
  bool proven = false;  // nothing is cheaper
  std::vector<int> choice;
  double cost = 0;
  double memory = 0;
};

// The choices of a node that no other choice of it dominates: none is as good in cost, in memory
// where that is limited, and on every edge whatever the choice at its other end.
std::vector<int> worth_taking(const ChoiceProblem& problem, int node);

// The cost of an edge under a choice at each end.
inline double edge_cost(const ChoiceProblem& problem, const ChoiceEdge& e, int from, int to) {
  const std::size_t columns = e.columns > 0 ? static_cast<std::size_t>(e.columns)
                                            : problem.nodes[static_cast<std::size_t>(e.to)].size();
  return e.cost[e.row(from) * columns + e.column(to)];
}
double cost_of(const ChoiceProblem& problem, const std::vector<int>& choice);
double memory_of(const ChoiceProblem& problem, const std::vector<int>& choice);

// Without a memory limit, by eliminating one operator after the other: exact, and fast where graphs
// are nearly chains, as those of layers are. nullopt: a table on the way would hold more than
// kLargestTable entries.
inline constexpr std::size_t kLargestTable = 4'000'000;
std::optional<Chosen> choose_by_elimination(const ChoiceProblem& problem);

// Under the memory limit, by elimination with a price on memory (Lagrangian relaxation): a choice
// that fits, and a lower bound of all that do. `feasible` false with an infinite bound: none fits.
// nullopt as above. Choices that cost `limit` or more are of no use: it stops once the bound
// reaches it.
struct Relaxed {
  Chosen chosen;
  double bound = 0;
};
std::optional<Relaxed> choose_by_relaxation(const ChoiceProblem& problem, double limit = kInfinity);

// By an integer linear program (ilp.h). Products s_i s_j become variables e_ij whose row and column
// sums are the choices; choices that no edge tells apart share theirs, and choices that another one
// beats in everything are left out: neither changes the optimum.
Chosen choose_by_ilp(const ChoiceProblem& problem, double seconds = 600);

}  // namespace stepcast::automatic
