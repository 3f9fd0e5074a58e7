// Random searches of degrees, compared with all points of a space.
#include "automatic/degrees/degrees.h"

#include <algorithm>

#include "automatic/infinity.h"
#include "catch.hpp"

namespace stepcast::automatic {
namespace {

// Powers of two as tensor, pipeline and data of 4,096 ranks, and a micro-batch: most points are not
// a valid grid.
DegreeProblem grids() {
  return {{13, 13, 13, 6}, [](const Genome& g) {
            if (g[0] + g[1] + g[2] != 12) {
              return kInfinity;
            }
            const double t = 1 << g[0], p = 1 << g[1], d = 1 << g[2], b = 1 << g[3];
            const double micro_batches = 8192 / (d * b);
            if (micro_batches < 1 || 3000 / (t * p) + b * p / t > 60) {
              return kInfinity;
            }
            return (1 + (p - 1) / micro_batches) * (1 + 0.05 * t + 0.3 / b);
          }};
}

double exact(const DegreeProblem& p) {
  double best = kInfinity;
  Genome g(p.sizes.size(), 0);
  for (;;) {
    best = std::min(best, p.fitness(g));
    std::size_t i = 0;
    while (i < g.size() && ++g[i] == p.sizes[i]) {
      g[i++] = 0;
    }
    if (i == g.size()) {
      return best;
    }
  }
}

TEST_CASE("evolution and annealing find the exact answer of a space of 13,182 points") {
  const DegreeProblem p = grids();
  const double best = exact(p);
  REQUIRE(best < kInfinity);
  for (const auto search : {evolve, anneal}) {
    DegreeSearch options;
    options.seed = 1;
    const DegreeAnswer found = search(p, options);
    REQUIRE(!found.best.empty());
    CHECK(found.best.front().first == best);
    CHECK(std::is_sorted(found.best.begin(), found.best.end()));
    CHECK(found.evaluated < 13182);
  }
}

TEST_CASE("the same seed draws the same points") {
  const DegreeProblem p = grids();
  for (const auto search : {evolve, anneal}) {
    DegreeSearch options;
    options.seed = 7;
    options.evaluations = 500;
    CHECK(search(p, options).best == search(p, options).best);
  }
}

TEST_CASE("a space without a point says so") {
  const DegreeProblem p{{4, 4}, [](const Genome&) { return kInfinity; }};
  CHECK(evolve(p, {}).best.empty());
  CHECK(anneal(p, {}).best.empty());
}

}  // namespace
}  // namespace stepcast::automatic
