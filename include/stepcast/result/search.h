// The answer of a strategy search.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "stepcast/base/quantity.h"
#include "stepcast/result/report.h"

namespace stepcast::result {

// One strategy that the engine ran.
struct Strategy {
  std::vector<std::string> overrides;  // of the base job: "parallelism.tensor=8", in the space's order
  Estimate step_time;
  Estimate peak;  // process memory, bytes
  Bytes capacity;
  double mfu = 0;
  double gpus = 0;
  double objective = 0;  // seconds, GPU-seconds or joules a step
  double bubble_fraction = 0;
  bool fits = false;
  Time compute{0}, recompute{0}, exposed{0}, bubble{0}, other{0};  // mean over stages; add up to the step
};

// The fastest strategy within so much memory of each GPU.
struct FrontPoint {
  double memory = 0;  // bytes
  Strategy best;
};

struct SearchCounts {
  std::int64_t candidates = 0;     // of the space: all combinations
  std::int64_t impossible = 0;     // sizes that do not divide, or that the system refuses
  std::int64_t memory_pruned = 0;  // least memory above the capacity
  std::int64_t time_pruned = 0;    // least time above the best found
  std::int64_t simulated = 0;
  std::int64_t bounded = 0;  // of a search by bounds alone: those whose bound was evaluated
  std::int64_t misfit = 0;   // of the simulated: do not fit in memory
};

struct WhatIf {
  std::string change;  // "twice the network's bandwidth"
  double objective = 0;
};

struct Search {
  std::string title;      // of the job: "llama-3-70b on 64 x dgx-h100"
  std::string objective;  // time | cost | energy
  bool found = false;
  bool stopped = false;      // by the time limit: another run may answer differently
  bool bounds_only = false;  // nothing was simulated: times and memory are lower bounds
  Strategy best;
  std::vector<Strategy> ranking;  // the best first, of those that fit
  std::vector<FrontPoint> front;  // least memory first
  double gap = 0;                 // (best - least bound left) / best; 0: optimal within the space
  std::string why;                // what the runner-up loses by
  double stated = 0;              // objective of the job as it was given; 0: it does not run
  std::string against;            // what it loses by, or that it does not fit
  std::vector<WhatIf> what_if;
  SearchCounts counts;
  std::vector<std::pair<std::string, std::int64_t>> refusals;  // reason of impossible ones and how many
  std::string nearest;                                         // nothing feasible: the constraint to relax, and by how much
};

}  // namespace stepcast::result
