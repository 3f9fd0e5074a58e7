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
#include "stepcast/store/store.h"

namespace stepcast::search {

// The job with these overrides, as if the user had typed them; the first fault where it is refused. Called from several
// threads at once.
using JobLoader = std::function<std::variant<job::Job, Infeasible>(const std::vector<std::string>& overrides)>;

enum class Objective {
  time,    // seconds of a step
  cost,    // GPU-seconds of a step: clusters of unlike sizes compare by what they burn
  energy,  // joules of a step: all GPUs at their devices' rated power, busy or not
};

constexpr auto spellings(Objective) {
  return std::to_array<Spelling<Objective>>(
      {{Objective::time, "time"}, {Objective::cost, "cost"}, {Objective::energy, "energy"}});
}

class World;

struct Progress {
  result::SearchCounts counts;
  std::string stage;          // what is asked now
  double best = 0;            // of the objective; 0: nothing yet
  double gap = 1;             // to the least bound that is left
  std::int64_t open = -1;     // candidates that are left to run at most; below 0: nothing fits yet
  double seconds = 0;         // since the search began
  double seconds_left = -1;   // until this stage ends at most; below 0: not known
  std::int64_t computed = 0;  // evaluations of this run, and those that the store had
  std::int64_t reused = 0;
  bool finished = false;
  bool stopped = false;  // by the time limit
};

struct Request {
  Space space;
  Objective objective = Objective::time;
  // Seconds; 0: none. What is best by then is returned with the gap that is left: the job as given, if nothing better is
  // known. Evaluations that run are given up.
  double time_limit = 0;
  int threads = 0;                                // of each process; 0: its share of the host's CPUs
  World* world = nullptr;                         // those who evaluate as well; null: this process alone
  store::Store* store = nullptr;                  // keeps what is evaluated, and what it holds is not evaluated again
  std::string store_key;                          // of the job and all that its overrides may depend on
  int ranking = 10;                               // strategies listed
  std::vector<double> front = {0.25, 0.5, 0.75};  // shares of the GPU's memory of which the fastest is asked as well
  bool best_only = false;                         // neither the front nor what other hardware would bring is asked
  std::function<void(const Progress&)> progress;
};

// The same answer for every number of threads and processes, with a store or without, unless the time limit ends it. Without
// a strategy that fits, `found` is false and `nearest` says what is short. Throws InputError where the space names what no
// job has.
result::Search search(const Request& request, const JobLoader& loader, const std::filesystem::path& data_directory);

// The strategy with the least lower bound of those whose least memory fits, of all combinations: what none of them can beat.
// Exhaustively: every combination that divides is evaluated; else whole layouts are left out by their least step. Both give
// the same answer. Single-threaded; takes neither time limit nor front.
result::Search search_bounds(const Request& request, const JobLoader& loader, const std::filesystem::path& data_directory,
                             bool exhaustive);

}  // namespace stepcast::search
