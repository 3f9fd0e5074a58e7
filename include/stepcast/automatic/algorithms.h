// Automatic parallelisation as other systems do it (Alpa, nnScaler, FlexFlow, AHP), on one operator graph and one cost
// model. Each answer is forecast by the engine as the nearest job, beside the answer of the exact search.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stepcast/base/spelling.h"
#include "stepcast/result/algorithms.h"
#include "stepcast/search/search.h"

namespace stepcast::automatic {

enum class Algorithm { exact, ahp, alpa, nnscaler, flexflow, evolutionary, annealing };

// In the order in which tables list them.
constexpr auto spellings(Algorithm) {
  return std::to_array<Spelling<Algorithm>>({{Algorithm::exact, "exact"},
                                             {Algorithm::ahp, "ahp"},
                                             {Algorithm::alpa, "alpa"},
                                             {Algorithm::nnscaler, "nnscaler"},
                                             {Algorithm::flexflow, "flexflow"},
                                             {Algorithm::evolutionary, "evolutionary"},
                                             {Algorithm::annealing, "annealing"}});
}

struct AlgorithmRequest {
  std::vector<std::string> names;  // among algorithm_names(); "exact" runs search::search()
  std::uint64_t seed = 1;          // for flexflow, evolutionary and annealing
  // For ahp: how it searches degrees of parallelism. automatic: exactly if the space is small enough to enumerate.
  enum class Degrees { automatic, exact, evolutionary, annealing } degrees = Degrees::automatic;
  std::vector<std::string> fixed;  // for ahp: overrides of the user, which it does not change
  // For ahp: the CSV file that its order of passes will be written to; empty: it must not answer with an order of its own.
  std::string schedule_file;
  std::string constraints;  // file with rules for the plans of alpa, nnscaler and flexflow; empty: none
};

// All names, in the order of their table.
const std::vector<std::string>& algorithm_names();

// Runs the algorithms one after the other. `base`: the job without the space's choices. Throws InputError where a name is
// unknown or this build lacks a library that the algorithm needs.
result::Algorithms run_algorithms(const search::Request& request, const AlgorithmRequest& algorithms, const job::Job& base,
                                  const search::JobLoader& loader, const std::filesystem::path& data_directory);

}  // namespace stepcast::automatic
