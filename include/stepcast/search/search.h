// The best strategy of a space, with proof: branch and bound over closed-form lower bounds, the engine for what they
// leave over.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/result/search.h"
#include "stepcast/search/space.h"

namespace stepcast::search {

// The job with these overrides, as if the user had typed them; the first fault where it is refused. Called from several
// threads at once.
using JobLoader = std::function<std::variant<job::Job, Infeasible>(const std::vector<std::string>& overrides)>;

enum class Objective {
  time,    // seconds of a step
  cost,    // GPU-seconds of a step: clusters of unlike sizes compare by what they burn
  energy,  // joules of a step: all GPUs at their devices' rated power, busy or not
};

struct Progress {
  result::SearchCounts counts;
  double best = 0;     // of the objective; 0: nothing yet
  double gap = 1;      // to the least bound that is left
  double seconds = 0;  // since the search began
};

struct Request {
  Space space;
  Objective objective = Objective::time;
  double time_limit = 0;  // seconds; 0: none. What is best by then is returned with the gap that is left
  int threads = 1;
  int ranking = 10;                               // strategies listed
  std::vector<double> front = {0.25, 0.5, 0.75};  // shares of the GPU's memory of which the fastest is asked as well
  std::function<void(const Progress&)> progress;
};

// The same answer for every number of threads, unless the time limit ends it. Without a strategy that fits, `found` is
// false and `nearest` says what is short. Throws InputError where the space names what no job has.
result::Search search(const Request& request, const JobLoader& loader, const std::filesystem::path& data_directory);

}  // namespace stepcast::search
