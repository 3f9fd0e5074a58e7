// Searches of other systems on one operator graph and one cost model, each answer forecast by the
// engine as the nearest job, beside the exact search.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stepcast/result/algorithms.h"
#include "stepcast/search/search.h"

namespace stepcast::search {

struct AlgorithmRequest {
  std::vector<std::string> names;  // of algorithm_names(); "exact" runs search()
  std::uint64_t seed = 1;          // of flexflow, evolutionary, annealing
};

// In the order of tables: exact, alpa, nnscaler, flexflow, evolutionary, annealing.
const std::vector<std::string>& algorithm_names();

// `base`: the job without the space's choices. Throws InputError where a name is unknown or this
// build lacks what it needs.
result::Algorithms run_algorithms(const Request& request, const AlgorithmRequest& algorithms, const job::Job& base,
                                  const JobLoader& loader, const std::filesystem::path& data_directory);

}  // namespace stepcast::search
