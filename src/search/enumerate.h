// All combinations of a space with their lower bounds.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "families.h"

namespace stepcast::search {

// A candidate that may be the answer. `index` counts through its family's inner combinations.
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
  std::vector<forecast::Forecaster::Bounds> bounds;  // of each family
  std::vector<Item> items;                           // the least bound first
  double capacity = 0;                               // usable bytes of the largest GPU
  // No candidate with a smaller bound was dropped for want of room in the list.
  double complete_below = std::numeric_limits<double>::infinity();
  double least_memory =
      std::numeric_limits<double>::infinity();  // of all candidates whose sizes divide
  result::SearchCounts counts;
  std::vector<std::pair<std::string, std::int64_t>> refusals;
  std::vector<std::string> overrides(const Item& item) const;
  // The item's bound with its schedule played (bound.h), where that is tighter; else its own.
  struct Refined {
    double bound = 0;
    std::optional<Infeasible> refused;
  };
  Refined refine(const Item& item);
};

// Strategies beyond the GPU's memory are bounded as well, to say what more memory would bring.
constexpr double kMoreMemory = 1.5;

// `stop`: once it is set, candidates that are not bounded yet are left out, and `complete_below` is
// 0. `memory_limit`: candidates whose least memory exceeds this multiple of the capacity are
// pruned.
Enumerated enumerate(const Request& request, const JobLoader& loader,
                     forecast::Forecaster& forecaster, double memory_limit,
                     const Stop* stop = nullptr);

}  // namespace stepcast::search
