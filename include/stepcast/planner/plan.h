// Which clusters of a catalogue train a job within a deadline, a budget and a power limit.
//
// For each cluster the node count and the strategy are searched together, best first: node counts in the order of the time
// that GPUs at their peak would take, strategies in the order of their lower bounds (search::search_bounds). The bounds of
// those that may still be the best are refined by playing their schedules (bound::Bound::refine), and those that remain are
// simulated by the engine. The search ends when the smallest remaining bound is no better than the best simulated strategy;
// it never assumes that more nodes are faster. A `proven` answer rests on the bounds of steps and on failures counted by the
// same simulated runs for all strategies (MostEffective): no strategy of the space, simulated as the answer was, ranks
// before it.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "stepcast/base/spelling.h"
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
  std::string config;                  // as `simulate --config` takes it
  std::vector<std::string> overrides;  // as --set takes them; these keys are not searched
  double tokens = 0;
  result::PlanLimits limits;
  // A date: the time until a cluster is available counts towards the deadline; "": all clusters are available.
  std::string start;
  PlanObjective objective = PlanObjective::cost;
  Catalogue catalogue;
  text::Value space;                                                               // strategies, as in configs/spaces
  const Operations* operations = nullptr;                                          // null: nothing fails
  int engine_runs = 60;                                                            // for one cluster at most
  int threads = 0;                                                                 // 0: one for each CPU
  std::function<void(const result::PlannedCluster&, int done, int all)> progress;  // one at a time
};

// The answer does not depend on the number of threads. Throws InputError where the job or the space is faulty.
result::Plan plan(const PlanRequest& request, const std::filesystem::path& data_directory);

// Reads "60 d" or "90 min", like parse_time but for runs that exceed the range of Time. Throws std::invalid_argument.
Seconds parse_duration(const std::string& text);

}  // namespace stepcast::planner
