// What can be tried on a cluster: node counts, strategies with their lower bounds, and what the
// engine says of them. Nothing here knows prices, so that offers of one kind of cluster share it.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "stepcast/forecast/forecaster.h"
#include "stepcast/planner/plan.h"
#include "stepcast/search/space.h"

namespace stepcast::planner {

// Node counts up to `most` on which the ranks divide into sizes that the space offers, fewest
// first. LAW  nodes x GPUs = tensor x pipeline x context x data, and micro_batch x data divides the
// global batch.
std::vector<int> node_counts(const search::Space& space, const job::Job& job, int gpus_per_node,
                             int most);

// The job on one node of the offer's cluster.
job::Job on_one_node(const PlanRequest& request, const Offer& offer);
// The same text for offers whose clusters differ by nothing but their names.
std::string kind_of(const PlanRequest& request, const Offer& offer);

// A strategy that the engine ran. `exact`: its reserved memory is the replayed allocator's; else it
// follows from a rule of thumb and is no less than what tensors take.
struct Trial {
  bool exact = false;
  double mfu = 0, bubble_fraction = 0;
  Bytes capacity;
  result::Estimate peak;
  result::Fit fits;
  Pace pace;
  std::vector<result::PlanBasis> basis;
};

class Strategies {
 public:
  // `offer`: any one of this kind of cluster. All arguments outlive this.
  Strategies(const PlanRequest& request, const Offer& offer, forecast::Forecaster& forecaster,
             std::filesystem::path data_directory);

  // What a job on so many nodes of the offer's cluster states beside the user's own overrides and
  // the strategy.
  std::vector<std::string> fixed(const Offer& offer, int nodes) const;

  std::vector<int> counts(int most) const;

  // The strategies on a number of nodes with the smallest bounds.
  struct Listed {
    std::vector<std::vector<std::string>> overrides;
    std::vector<double> step;  // seconds: lower bounds, rising
    bool all = false;          // false: strategies left out have no bound below the last one's
    std::int64_t bounded = 0;
    std::string nearest;  // why there is no strategy
  };
  const Listed& on(int nodes);

  // The bound with the strategy's schedule played, or why the engine would refuse it.
  using Refined = std::variant<double, Infeasible>;
  const Refined& refined(int nodes, std::size_t index);

  using Outcome = std::variant<Trial, std::string>;  // or why it does not run
  // The strategy with reserved memory by the rule, which is enough for what is too slow or far too
  // large; exact where `wants_exact` is true of that.
  using WantsExact = std::function<bool(const Trial& by_rule)>;
  const Outcome& tried(int nodes, std::size_t index, const WantsExact& wants_exact);

 private:
  search::Space space_of(int nodes) const;
  std::vector<std::string> overrides(int nodes, const std::vector<std::string>& strategy) const;
  job::Job job_of(int nodes, std::size_t index);

  const PlanRequest& request_;
  const Offer& offer_;
  forecast::Forecaster& forecaster_;
  std::filesystem::path data_;
  job::Job job_;  // on one node of this cluster
  std::vector<std::string> cuts_;
  using Key = std::pair<int, std::size_t>;
  std::map<int, Listed> listed_;
  std::map<Key, Refined> refined_;
  struct Tried {
    std::optional<Outcome> by_rule, exact;
  };
  Trial trial_of(const job::Job& job, const result::Report& report, bool exact) const;
  // Fills `by_rule` and, if that is wanted, `exact`, of which at least one is unknown.
  void run(int nodes, std::size_t index, const WantsExact& wants_exact, Tried& out);
  std::map<Key, Tried> tried_;
};

}  // namespace stepcast::planner
