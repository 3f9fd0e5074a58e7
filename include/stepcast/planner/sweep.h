// One job with all combinations of values of some of its keys: the forecast, or the best strategy, of each combination.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "stepcast/forecast/forecaster.h"
#include "stepcast/result/sweep.h"
#include "stepcast/search/search.h"
#include "stepcast/search/world.h"
#include "stepcast/text/document.h"

namespace stepcast::store {
class Store;
}

namespace stepcast::planner {

// Reads "KEY=VALUE,VALUE" or "KEY,KEY=VALUE:VALUE,...", where a value may be a range of numbers: a..b (in steps of one),
// a..b+s, a..b*f. Commas and colons inside brackets, braces and quotes do not separate values. Throws InputError whose line
// names "OPTION TEXT".
result::SweepAxis sweep_axis(const std::string& option, const std::string& text);

// Reads several axes in their order. Throws InputError where two set the same key, or the sweep has too many points.
std::vector<result::SweepAxis> sweep_axes(const std::string& option, const std::vector<std::string>& texts);

// Throws InputError at the first value that no job can have (search::check_values). `texts`: those of which the axes were
// made.
void check_values(const std::string& option, const std::vector<std::string>& texts,
                  const std::vector<result::SweepAxis>& axes);

struct SweepProgress {
  std::int64_t points = 0, done = 0;
  std::int64_t computed = 0, reused = 0;  // of the points done: computed now, and found in the store
  std::int64_t without = 0;               // of the points done: rows without a forecast
  double seconds = 0;                     // since the sweep began
  double seconds_left = -1;               // negative: not known
  bool finished = false;
};

struct SweepRequest {
  std::string config;                  // as `simulate --config` takes it
  std::vector<std::string> overrides;  // as --set takes them
  std::vector<result::SweepAxis> axes;
  forecast::Fidelity fidelity = forecast::Fidelity::folded;
  // Set: find the best strategy of each point instead of taking the job's own.
  struct Optimize {
    text::Value space;
    search::Objective objective = search::Objective::time;
  };
  std::optional<Optimize> optimize;
  int threads = 0;                 // of each process; 0: its share of the host's CPUs
  search::World* world = nullptr;  // processes that compute points too; null: this process alone
  store::Store* store = nullptr;   // keeps each point when it is ready; points that it holds are not computed again
  std::function<void(const SweepProgress&)> progress;
};

// Throws InputError where the job is faulty at every point, or a varied key is unknown. An impossible point becomes a row
// with its reason, and so does a point at which the simulator itself failed; the latter is not stored. The result is the
// same for every number of threads and processes, with a store or without.
result::Sweep sweep(const SweepRequest& request, const std::filesystem::path& data_directory);

// What every rank above 0 does, with the same request as rank 0: it computes the points that rank 0 hands out until the
// sweep ends.
void follow_sweep(const SweepRequest& request, const std::filesystem::path& data_directory);

}  // namespace stepcast::planner
