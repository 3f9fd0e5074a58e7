// Result of a strategy search.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "stepcast/base/quantity.h"
#include "stepcast/result/report.h"

namespace stepcast::result {

// One strategy that was simulated.
struct Strategy {
  std::vector<std::string> overrides;  // of the base job, in the order of the space: "parallelism.tensor=8"
  Estimate step_time;
  Estimate peak;  // process memory, bytes
  Bytes capacity;
  double mfu = 0;
  double gpus = 0;
  double objective = 0;  // seconds, GPU-seconds or joules per step
  double bubble_fraction = 0;
  Fit fits;
  Time compute{0}, recompute{0}, exposed{0}, bubble{0}, other{0};  // mean over stages; add up to the step
};

// The fastest strategy within an amount of memory per GPU.
struct FrontPoint {
  double memory = 0;  // bytes
  Strategy best;
};

struct SearchCounts {
  std::int64_t candidates = 0;     // of the space: all combinations
  std::int64_t impossible = 0;     // sizes that do not divide, or combinations that the system refuses
  std::int64_t alike = 0;          // the same job as one that was counted: a schedule without stages, say
  std::int64_t memory_pruned = 0;  // lower bound of memory above the capacity
  std::int64_t time_pruned = 0;    // lower bound of time above the best found
  std::int64_t simulated = 0;
  std::int64_t bounded = 0;  // in a search by bounds alone: those whose bound was evaluated
  std::int64_t misfit = 0;   // of the simulated ones: those that do not fit in memory
  std::int64_t asked = 0;    // where none is possible: those that were asked for all their reasons
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
  std::vector<Strategy> ranking;  // strategies that fit, the best first
  std::vector<FrontPoint> front;  // least memory first
  double gap = 0;                 // (best - least remaining bound) / best; 0: optimal within the space
  std::string why;                // why the runner-up is slower; of bounds alone: what the ranking leaves out
  double stated = 0;              // objective of the job as given; 0: it does not run
  std::string against;            // why the job as given is slower, or that it does not fit
  std::vector<WhatIf> what_if;
  SearchCounts counts;
  std::vector<std::pair<std::string, std::int64_t>> refusals;  // reasons of the impossible ones, with their number
  std::string nearest;  // where nothing is feasible: the constraint to relax, and by how much
};

}  // namespace stepcast::result
