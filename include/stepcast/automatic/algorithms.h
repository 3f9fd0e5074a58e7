// Searches of other systems on one operator graph and one cost model, each answer forecast by the
// engine as the nearest job, beside the exact search.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stepcast/result/algorithms.h"
#include "stepcast/search/search.h"

namespace stepcast::automatic {

struct AlgorithmRequest {
  std::vector<std::string> names;  // of algorithm_names(); "exact" runs search()
  std::uint64_t seed = 1;          // of flexflow, evolutionary, annealing
  // Of ahp: how it searches degrees (auto: exactly, where the space is in reach), the overrides that the user gave, which
  // it leaves alone, and the file that its order of passes is written to (CSV); empty: an order of its own is no answer.
  enum class Degrees { automatic, exact, evolutionary, annealing } degrees = Degrees::automatic;
  std::vector<std::string> fixed;
  std::string schedule_file;
  std::string constraints;  // file of rules for plans of alpa, nnscaler and flexflow; empty: none
};

// In the order of tables: exact, ahp, alpa, nnscaler, flexflow, evolutionary, annealing.
const std::vector<std::string>& algorithm_names();

// `base`: the job without the space's choices. Throws InputError where a name is unknown or this
// build lacks what it needs.
result::Algorithms run_algorithms(const search::Request& request, const AlgorithmRequest& algorithms, const job::Job& base,
                                  const search::JobLoader& loader, const std::filesystem::path& data_directory);

}  // namespace stepcast::automatic
