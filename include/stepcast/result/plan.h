// Clusters of a catalogue that train a job within deadline, budget and power, and what each costs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stepcast/base/quantity.h"
#include "stepcast/base/spelling.h"
#include "stepcast/result/expenses.h"
#include "stepcast/result/fit.h"
#include "stepcast/result/report.h"

namespace stepcast::result {

// Limits of a run. 0: no limit.
struct PlanLimits {
  double days = 0;    // wall clock, from --start where that is given
  double budget = 0;  // in the catalogue's currency
  double watts = 0;   // peak power at the meter
};

// What a cluster can miss: a limit of the run, a GPU's memory, or any strategy that runs on it.
enum class PlanLimit { deadline, budget, power, memory, strategy };

constexpr auto spellings(PlanLimit) {
  return std::to_array<Spelling<PlanLimit>>({{PlanLimit::deadline, "deadline"},
                                             {PlanLimit::budget, "budget"},
                                             {PlanLimit::power, "power"},
                                             {PlanLimit::memory, "memory"},
                                             {PlanLimit::strategy, "strategy"}});
}

// A limit that a cluster misses, and by how much.
struct Shortfall {
  PlanLimit limit = PlanLimit::strategy;
  double by = 0;     // days, currency, W or bytes; 0 for PlanLimit::strategy
  std::string text;  // "12.3 days over the deadline"
};

// A figure of the catalogue that was used, with its source.
struct PlanFigure {
  std::string name;  // "rent"
  double value = 0;
  std::string unit;
  std::string source;
};

// The best strategy simulated on a number of nodes, to draw time against cost.
struct PlannedCount {
  int nodes = 0;
  Fit fits;  // in memory
  bool meets = false;
  double days = 0, cost = 0, energy = 0, peak_power = 0;  // as in PlannedCluster
};

// What a share of the step was priced by: a file of calibration/, or "datasheet".
struct PlanBasis {
  std::string file;
  double share = 0;     // of the seconds of the critical path that follow from curves
  double residual = 0;  // relative standard deviation of its curves: the largest
  std::string provenance;
};

struct PlannedCluster {
  std::string name;     // of the offer: "aws-p5-on-demand"
  std::string cluster;  // of configs/clusters
  std::string device, site;
  bool chips = false;     // its devices are TPUs' chips, not GPUs
  std::string available;  // "2024-12-03"; "": not stated
  int nodes_offered = 0;
  bool bought = false;  // false: rented
  bool priced = true;   // false: nobody stated a price; `cost` is then 0 and says nothing

  bool meets = false;                 // all limits, and fits in memory
  bool simulated = false;             // false: no strategy runs; then only `shortfalls` is filled
  std::vector<Shortfall> shortfalls;  // of the strategy that comes nearest to the limits

  int nodes = 0, gpus = 0;
  std::vector<std::string> overrides;  // of the job: "parallelism.tensor=8", in the space's order
  Estimate step_time;                  // seconds
  double mfu = 0, bubble_fraction = 0;
  Estimate peak_memory;  // process memory, bytes
  Bytes capacity;
  Fit fits;
  double busy = 0, communicating = 0;  // shares of a GPU's step: kernels; waiting in exposed communication
  Estimate effective;                  // share of the wall clock that trains; 1 where goodput is left out
  double wait_days = 0;                // from --start until it is available
  Estimate days;                       // of wall clock, without waiting for availability
  Estimate gpu_hours;
  Estimate cost;  // in the catalogue's currency; at its value the sum of
  Expenses expenses;
  double capital = 0;                        // purchase price
  Estimate energy;                           // joules at the meter: PUE included
  double average_power = 0, peak_power = 0;  // W at the meter
  std::optional<Estimate> carbon;            // kg CO2e; where the site states an intensity
  double objective = 0;                      // figure that clusters are ranked by

  std::vector<PlannedCount> counts;  // fewest nodes first
  std::int64_t counts_possible = 0;  // node counts on which some strategy of the space divides
  std::int64_t bounded = 0;          // number of strategies whose lower bound was evaluated
  std::int64_t engine_runs = 0;
  bool proven = false;  // no strategy and node count of the space does better
  double gap = 0;       // where not proven: share of the objective by which one might do better
  std::vector<PlanFigure> figures;
  std::vector<PlanBasis> basis;  // of the step, the largest share first
};

struct Plan {
  std::string title;      // of the job: "llama-3.1-405b, 2048 sequences of 8192 tokens a step"
  std::string objective;  // cost | time | energy | carbon
  std::string catalogue;  // its file's name
  std::string currency;
  std::string operations;  // file of failure rates (simulate goodput); "": failures are left out
  std::string start;       // "2025-06-01", or ""
  double tokens = 0;
  PlanLimits limits;
  std::vector<PlannedCluster> clusters;  // clusters that meet the limits, the best first; then by how little they miss them
};

}  // namespace stepcast::result
