// One job over all combinations of values of some of its keys: a forecast, or the best strategy, for each.
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
#include "stepcast/store/store.h"
#include "stepcast/text/document.h"

namespace stepcast::planner {

// "KEY=VALUE,VALUE" or "KEY,KEY=VALUE:VALUE,...", where a value may be a range of numbers: a..b (by one), a..b+s, a..b*f.
// Commas and colons inside brackets, braces and quotes part nothing. Throws InputError, its line naming "OPTION TEXT".
result::SweepAxis sweep_axis(const std::string& option, const std::string& text);

// All of them, in order; those that set one key, and sweeps of too many points, are refused.
std::vector<result::SweepAxis> sweep_axes(const std::string& option, const std::vector<std::string>& texts);

struct SweepProgress {
  std::int64_t points = 0, done = 0;
  std::int64_t computed = 0, reused = 0;  // of those done: now, and by the store
  std::int64_t without = 0;               // of those done: rows without a forecast
  double seconds = 0;                     // since the sweep began
  double seconds_left = -1;               // below 0: not known
  bool finished = false;
};

struct SweepRequest {
  std::string config;                  // as simulate --config
  std::vector<std::string> overrides;  // as --set
  std::vector<result::SweepAxis> axes;
  forecast::Fidelity fidelity = forecast::Fidelity::folded;
  // The best strategy of each point instead of the job's own.
  struct Optimize {
    text::Value space;
    search::Objective objective = search::Objective::time;
  };
  std::optional<Optimize> optimize;
  int threads = 0;                 // of each process; 0: its share of the host's CPUs
  search::World* world = nullptr;  // those who work as well; null: this process alone
  store::Store* store = nullptr;   // keeps each point as it comes; what it holds is not computed again
  std::function<void(const SweepProgress&)> progress;
};

// Throws InputError where the job is faulty whatever is varied, or a key that is varied is unknown. A point that cannot be
// is a row with its reason, and so is one where the simulator itself failed, which no store keeps. The same result for every
// number of threads and processes, with a store or without.
result::Sweep sweep(const SweepRequest& request, const std::filesystem::path& data_directory);

// What every rank above 0 does, with rank 0's request: computes what it hands out, until that ends.
void follow_sweep(const SweepRequest& request, const std::filesystem::path& data_directory);

}  // namespace stepcast::planner
