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
  // The objective to minimise; infinity where the point is impossible. A pure function: it is
  // called again for points seen before.
  std::function<double(const Genome&)> fitness;
};

struct DegreeSearch {
  std::uint64_t seed = 1;
  int evaluations = 20000;  // at most
  int keep = 24;            // best points that are returned
};

struct DegreeAnswer {
  std::vector<std::pair<double, Genome>> best;  // the least first, all different
  std::int64_t evaluated = 0;                   // different points
};

// (mu + lambda) with tournament selection, uniform crossover and single mutations.
DegreeAnswer evolve(const DegreeProblem& problem, const DegreeSearch& search);
// Single changes, geometric cooling, several starts.
DegreeAnswer anneal(const DegreeProblem& problem, const DegreeSearch& search);

}  // namespace stepcast::automatic
