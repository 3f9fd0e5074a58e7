// One candidate through the engine: a pure function of the job, so that it may be computed
// anywhere, in any order, and kept.
#pragma once

#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stepcast/forecast/forecaster.h"
#include "stepcast/search/search.h"
#include "stepcast/search/workers.h"

namespace stepcast::search {

// What is known of a candidate. The engine runs once with the peak memory by a rule of thumb, which
// is enough for a candidate that is too slow or far too large, and again with the allocator's
// replay for the others.
struct Evaluation {
  std::optional<Infeasible> impossible;
  std::optional<result::Strategy> rule;
  std::optional<result::Strategy> exact;

  bool ran() const { return rule.has_value(); }
  const result::Strategy& strategy() const { return exact ? *exact : *rule; }
  // Memory of the tensors alone, which the rule knows exactly: reserved memory is never less.
  double least_peak() const { return rule->peak.low; }
  // Whether a search below `limit` within `memory` needs to know no more.
  bool enough(double limit, double memory) const;
};

struct Order {
  std::vector<std::string> overrides;
  // The allocator is replayed for what is faster than `limit` and no larger than `memory` by the
  // rule.
  double limit = std::numeric_limits<double>::infinity();
  double memory = std::numeric_limits<double>::infinity();
  bool replay_only = false;  // the run by the rule is known already
};

std::string packed(const Order& order);
Order order_of(const std::string& text);

// Throws Stopped where `stop` is set before the evaluation has ended.
Evaluation evaluate(const Order& order, Objective objective, const JobLoader& loader,
                    forecast::Forecaster& forecaster, const Stop* stop = nullptr);

// The work of whoever evaluates: packed orders in, evaluations as JSON out. It starts with
// start_of(objective). Once `stop` is set, an order that has begun ends with the error "stopped".
MakeWork evaluator(const JobLoader& loader, const std::filesystem::path& data_directory,
                   std::shared_ptr<const Stop> stop = nullptr);
std::string start_of(Objective objective);

// As JSON and back, to the last bit. The overrides are not part of it.
std::string to_json(const Evaluation& e);
// Throws InputError where `text` is none.
Evaluation evaluation_of(const std::string& text, const std::vector<std::string>& overrides);

}  // namespace stepcast::search
