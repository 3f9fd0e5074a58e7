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
  double memory = 0;  // least bytes of the fullest GPU
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
  // Nothing below it was dropped for want of room in the list.
  double complete_below = std::numeric_limits<double>::infinity();
  double least_memory = std::numeric_limits<double>::infinity();  // of all that divide
  result::SearchCounts counts;
  std::vector<std::pair<std::string, std::int64_t>> refusals;
  std::vector<std::string> overrides(const Item& item) const;
  // With its schedule played (bound.h); as the item says where that tells no more.
  struct Refined {
    double bound = 0;
    std::optional<Infeasible> refused;
  };
  Refined refine(const Item& item);
};

// Strategies beyond the GPU's memory are bounded as well, to say what more of it would bring.
constexpr double kMoreMemory = 1.5;

// `stop`: once it is asked, what is not bounded yet is left out, and `complete_below` is 0.
// `memory_limit`: candidates whose least memory lies above so many capacities are pruned.
Enumerated enumerate(const Request& request, const JobLoader& loader,
                     forecast::Forecaster& forecaster, double memory_limit,
                     const Stop* stop = nullptr);

}  // namespace stepcast::search
