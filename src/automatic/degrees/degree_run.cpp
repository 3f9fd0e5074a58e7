#include "degree_run.h"

#include "bound_fitness.h"

namespace stepcast::automatic {
namespace {

// How many points are kept for the engine, and how many of them it runs: once a strategy fits, and
// while none does.
constexpr int kKept = 4096;
constexpr int kRunsOnceOneFits = 24;
constexpr int kRunsUntilOneFits = 192;

}  // namespace

DegreeRun search_degrees(DegreeAlgorithm algorithm, const Inputs& in, const Simulate& simulate) {
  BoundFitness fitness(in);
  const DegreeProblem problem{fitness.sizes(), [&](const Genome& g) { return fitness(g); }};
  DegreeSearch search;
  search.seed = in.algorithms.seed;
  search.keep = kKept;
  const DegreeAnswer found = algorithm(problem, search);
  DegreeRun out;
  out.evaluated = found.evaluated;
  out.why_not = "no point that was tried keeps to memory by its bound";
  for (const auto& [bound, genome] : found.best) {
    if (out.best ? bound >= out.best->objective || out.simulated >= kRunsOnceOneFits
                 : out.simulated >= kRunsUntilOneFits) {
      break;
    }
    std::string why;
    auto strategy = simulate(fitness.overrides(genome), why);
    if (!strategy) {
      out.why_not = why;
      continue;
    }
    ++out.simulated;
    if (!strategy->fits) {
      out.why_not = "none of the best by bound fits in memory";
    } else if (!out.best || strategy->objective < out.best->objective) {
      out.best = std::move(strategy);
      out.bound = bound;
    }
  }
  return out;
}

}  // namespace stepcast::automatic
