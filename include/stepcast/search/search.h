// The best strategy of a space, with proof: branch and bound over closed-form lower bounds; the engine simulates the
// candidates that the bounds cannot rule out.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/base/spelling.h"
#include "stepcast/result/search.h"
#include "stepcast/search/space.h"

namespace stepcast::store {
class Store;
}

namespace stepcast::search {

// Loads the job with these overrides, as if the user had typed them; where it is refused, returns its first fault. Called
// from several threads at once.
using JobLoader = std::function<std::variant<job::Job, Infeasible>(const std::vector<std::string>& overrides)>;

enum class Objective {
  time,    // seconds of a step
  cost,    // GPU-seconds of a step, so that clusters of different sizes can be compared
  energy,  // joules of a step, with all GPUs at their rated power, busy or not
};

constexpr auto spellings(Objective) {
  return std::to_array<Spelling<Objective>>(
      {{Objective::time, "time"}, {Objective::cost, "cost"}, {Objective::energy, "energy"}});
}

class World;

struct Progress {
  result::SearchCounts counts;
  std::string stage;          // the question that is being answered
  double best = 0;            // best value of the objective so far; 0: none yet
  double gap = 1;             // relative distance from the best to the smallest lower bound that remains
  std::int64_t open = -1;     // candidates left to simulate at most; negative: nothing fits yet
  double seconds = 0;         // since the search began
  double seconds_left = -1;   // until this stage ends at most; negative: not known
  std::int64_t computed = 0;  // evaluations made by this run
  std::int64_t reused = 0;    // evaluations found in the store
  bool finished = false;
  bool stopped = false;  // ended by the time limit
};

// All that refuses the job with these overrides; empty: it is not refused.
using JobReasons = std::function<std::vector<Infeasible>(const std::vector<std::string>& overrides)>;

struct Request {
  Space space;
  Objective objective = Objective::time;
  // Seconds; 0: no limit. At the limit, running evaluations are abandoned, and the best strategy so far is returned with
  // the gap that remains; it is the job as given if nothing better is known.
  double time_limit = 0;
  int threads = 0;                // of each process; 0: its share of the host's CPUs
  World* world = nullptr;         // processes that evaluate too; null: this process alone
  store::Store* store = nullptr;  // keeps every evaluation; candidates that it holds are not evaluated again
  std::string store_key;          // identifies the job and everything that its overrides may depend on
  int ranking = 10;               // number of strategies listed
  // Shares of a GPU's memory for which the fastest strategy is found as well.
  std::vector<double> front = {0.25, 0.5, 0.75};
  bool best_only = false;  // find the best strategy alone: no front, no questions about other hardware
  std::function<void(const Progress&)> progress;
  JobReasons
      reasons{};  // for the answer where no combination is possible; null: the loader's first fault is all that is said
};

// The answer is the same for every number of threads and processes, with a store or without, unless the time limit ends the
// search. If no strategy fits, `found` is false and `nearest` says what is missing. Throws InputError where the space names
// a key that no job has.
result::Search search(const Request& request, const JobLoader& loader, const std::filesystem::path& data_directory);

// The strategy with the smallest lower bound among those whose least memory fits: no combination of the space can be
// faster. `exhaustive`: every combination whose sizes divide is evaluated; otherwise whole layouts are skipped by a lower
// bound on their step. Both give the same answer. Uses one thread and ignores time limit and front.
result::Search search_bounds(const Request& request, const JobLoader& loader, const std::filesystem::path& data_directory,
                             bool exhaustive);

}  // namespace stepcast::search
