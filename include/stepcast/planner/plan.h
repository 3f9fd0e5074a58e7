// Which clusters of a catalogue train a job within deadline, budget and power.
//
// Of each cluster the node count and the strategy are searched together, best first: node counts by what GPUs at their
// peak would take, strategies by their lower bounds (search::search_bounds), each that may still be the best with its
// schedule played (bound::Bound::refine), and what is left through the engine. It ends when the least bound left is no
// better than the best simulated: more nodes are never taken to be faster. What is `proven` so rests on the bounds of steps,
// and on failures counted by the same simulated runs for all (MostEffective): none of the space's strategies, simulated as
// the answer was, ranks before it.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "stepcast/planner/bill.h"
#include "stepcast/result/plan.h"
#include "stepcast/text/document.h"

namespace stepcast::planner {

enum class PlanObjective { cost, time, energy, carbon };

constexpr auto spellings(PlanObjective) {
  return std::to_array<Spelling<PlanObjective>>({{PlanObjective::cost, "cost"},
                                                 {PlanObjective::time, "time"},
                                                 {PlanObjective::energy, "energy"},
                                                 {PlanObjective::carbon, "carbon"}});
}

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
