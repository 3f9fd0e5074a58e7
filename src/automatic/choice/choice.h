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
  std::vector<double> cost;    // seconds, for each choice
  std::vector<double> memory;  // bytes
  std::size_t size() const { return cost.size(); }
};

// `cost` is row-major: [kind of `from`'s choice][kind of `to`'s choice]. Infinity: the two choices
// exclude each other.
struct ChoiceEdge {
  int from = 0;
  int to = 0;
  std::vector<double> cost;
  // The kind of each choice at either end, counted from 0: choices that cost the same on this edge
  // share a kind. Empty: each choice is its own kind.
  std::vector<int> from_kind, to_kind;
  int columns = 0;  // number of kinds of `to`'s choices; 0: as many as choices

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

// A solver may exceed the memory limit by this fraction.
inline constexpr double kMemoryTolerance = 1e-6;

struct Chosen {
  bool feasible = false;
  bool proven = false;  // no choice has a smaller cost
  std::vector<int> choice;
  double cost = 0;
  double memory = 0;
};

// Returns the choices of a node that no other choice of it dominates. A choice dominates another if
// it is at least as good in cost, in memory if that is limited, and on every edge for each choice
// at the edge's other end.
std::vector<int> worth_taking(const ChoiceProblem& problem, int node);

// Cost of an edge for a choice at each end.
inline double edge_cost(const ChoiceProblem& problem, const ChoiceEdge& e, int from, int to) {
  const std::size_t columns = e.columns > 0 ? static_cast<std::size_t>(e.columns)
                                            : problem.nodes[static_cast<std::size_t>(e.to)].size();
  return e.cost[e.row(from) * columns + e.column(to)];
}
double cost_of(const ChoiceProblem& problem, const std::vector<int>& choice);
double memory_of(const ChoiceProblem& problem, const std::vector<int>& choice);

// Solves the problem without a memory limit by eliminating one operator after the other. This is
// exact, and fast for graphs that are nearly chains, such as those of layers. nullopt: an
// intermediate table would have more than kLargestTable entries.
inline constexpr std::size_t kLargestTable = 4'000'000;
std::optional<Chosen> choose_by_elimination(const ChoiceProblem& problem);

// Solves the problem under the memory limit by elimination with a price on memory (Lagrangian
// relaxation). Returns a choice that fits and a lower bound of all that do. `feasible` false with
// an infinite bound: none fits. nullopt as above. Stops once the bound reaches `limit`, since
// dearer choices are of no use.
struct Relaxed {
  Chosen chosen;
  double bound = 0;
};
std::optional<Relaxed> choose_by_relaxation(const ChoiceProblem& problem, double limit = kInfinity);

// Solves the problem by an integer linear program (ilp.h). Products s_i s_j become variables e_ij
// whose row and column sums are the choices. Choices that no edge distinguishes share their
// variables, and dominated choices are left out; neither changes the optimum.
Chosen choose_by_ilp(const ChoiceProblem& problem, double seconds = 600);

}  // namespace stepcast::automatic
