// Which clusters of a catalogue train a job within deadline, budget and power.
//
// Of each cluster the node count and the strategy are searched together, best first: node counts by what GPUs at their
// peak would take, strategies by their lower bounds (search::search_bounds), each that may still be the best through the
// engine. It ends when the least bound left is no better than the best simulated: more nodes are never taken to be faster.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "stepcast/planner/catalogue.h"
#include "stepcast/planner/goodput.h"
#include "stepcast/result/plan.h"
#include "stepcast/text/document.h"

namespace stepcast::planner {

// ---------------------------------------------------------------- what a run costs
// What a cluster does in a run.
struct Duty {
  Seconds training{0};       // of steps alone
  double effective = 1;      // share of the wall clock that these are
  double active = 1;         // share in which the GPUs work: with what is done again after failures
  double busy = 1;           // of a GPU's step: in kernels
  double communicating = 0;  // in collectives that nothing hides; else idle
};

struct Bill {
  Seconds wall{0};
  double gpu_hours = 0;
  double rent = 0, depreciation = 0, electricity = 0, capital = 0;  // currency
  double average_power = 0, peak_power = 0;                         // W at the meter
  double energy = 0;                                                // J at the meter
  double carbon = 0;                                                // kg
  double cost() const { return rent + depreciation + electricity; }
};

// LAW  wall = training / effective
//      node = GPUs x (load busy + communicating communicating + idle rest) + host load + network, at work; all idle else
//      energy = wall x nodes x (active node + (1 - active) node idle) x PUE
//      rent = GPUs x hours x price; depreciation = nodes x price x wall / lifetime; electricity = kWh x price (if bought)
struct Rates {
  DevicePower device;
  HostPower host;
  Site site;
  Offer offer;
};
Bill bill(const Rates& rates, int nodes, int gpus_per_node, const Duty& duty);

// ---------------------------------------------------------------- the plan
enum class PlanObjective { cost, time, energy, carbon };
const char* to_string(PlanObjective objective);

struct PlanRequest {
  std::string config;                  // as simulate --config
  std::vector<std::string> overrides;  // as --set: what is set is not searched
  double tokens = 0;
  result::PlanLimits limits;
  std::string start;  // a date: clusters that come later use up the deadline; "": all are there
  PlanObjective objective = PlanObjective::cost;
  Catalogue catalogue;
  text::Value space;                                                               // of strategies (configs/spaces)
  const Operations* operations = nullptr;                                          // nullptr: nothing fails
  int engine_runs = 60;                                                            // of one cluster at most
  int threads = 0;                                                                 // 0: all
  std::function<void(const result::PlannedCluster&, int done, int all)> progress;  // one at a time
};

// The same for every number of threads. Throws InputError where job or space are faulty.
result::Plan plan(const PlanRequest& request, const std::filesystem::path& data_directory);

// "60 d", "90 min": parse_time for runs that outlast what Time holds. Throws std::invalid_argument.
Seconds parse_duration(const std::string& text);

}  // namespace stepcast::planner
