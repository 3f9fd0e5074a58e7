// Random searches over the dimensions of a space, for spaces too large to enumerate: the degree
// search of AHP (Gao et al.) by evolution or simulated annealing, with the closed-form bound as
// prediction model.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace stepcast::automatic {

// A point: the index of the value that each dimension takes.
using Genome = std::vector<int>;

struct DegreeProblem {
  std::vector<int> sizes;  // number of values of each dimension
  // The objective to minimise; infinity if the point is infeasible. It must be a pure function: the
  // search may evaluate a point more than once.
  std::function<double(const Genome&)> fitness;
};

struct DegreeSearch {
  std::uint64_t seed = 1;
  int evaluations = 20000;  // maximum number
  int keep = 24;            // number of best points to return
};

struct DegreeAnswer {
  std::vector<std::pair<double, Genome>> best;  // sorted by value, all distinct
  std::int64_t evaluated = 0;                   // number of distinct points
};

// A (mu + lambda) strategy with tournament selection, uniform crossover and single mutations.
DegreeAnswer evolve(const DegreeProblem& problem, const DegreeSearch& search);
// Simulated annealing with single changes, geometric cooling and several starts.
DegreeAnswer anneal(const DegreeProblem& problem, const DegreeSearch& search);

}  // namespace stepcast::automatic
