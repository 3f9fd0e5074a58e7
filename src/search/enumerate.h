// All combinations of a space with their lower bounds.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "families.h"

namespace stepcast::search {

// A candidate that may be the best strategy. `index` counts through the inner combinations of its
// family.
struct Item {
  double bound = 0;   // of the objective
  double memory = 0;  // lower bound of the fullest GPU's bytes
  std::uint32_t family = 0;
  std::uint64_t index = 0;
  bool operator<(const Item& o) const {
    return bound != o.bound     ? bound < o.bound
           : family != o.family ? family < o.family
                                : index < o.index;
  }
};

struct Enumerated {
  std::vector<Family> families;
  std::vector<forecast::Forecaster::Bounds> bounds;  // one for each family
  std::vector<Item> items;                           // sorted by bound, the smallest first
  double capacity = 0;                               // usable bytes of the largest GPU
  // No candidate with a smaller bound than this was dropped because the list was full.
  double complete_below = std::numeric_limits<double>::infinity();
  // Smallest memory of all candidates whose sizes divide.
  double least_memory = std::numeric_limits<double>::infinity();
  result::SearchCounts counts;
  std::vector<std::pair<std::string, std::int64_t>> refusals;
  std::vector<std::string> overrides(const Item& item) const;
  // Its offloading points into its family.
  bound::Candidate candidate(const Item& item) const;
  // The item's bounds after its schedule was simulated (bound.h), or its plain ones if those are
  // tighter.
  struct Refined {
    double bound = 0;
    double memory = 0;
    std::optional<Infeasible> refused;
  };
  Refined refine(const Item& item);
};

// Strategies that need somewhat more memory than the GPU has are bounded as well, to report what
// more memory would bring.
constexpr double kMoreMemory = 1.5;

// Once `stop` is set, candidates without a bound are left out and `complete_below` is 0. Candidates
// are pruned if the lower bound of their memory exceeds `memory_limit` times the capacity.
Enumerated enumerate(const Request& request, const JobLoader& loader,
                     forecast::Forecaster& forecaster, double memory_limit,
                     const Stop* stop = nullptr);

}  // namespace stepcast::search
