// Evaluates one candidate with the engine. An evaluation is a pure function of the job, so it may
// be computed anywhere, in any order, and stored.
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

// The known results of a candidate. Peak memory is first estimated by a simple rule, ahead of the
// engine's run, which is enough for a candidate that is far too large, or then for one that is too
// slow. For the others the allocator is replayed.
struct Evaluation {
  std::optional<Infeasible> impossible;
  std::optional<result::Estimate> memory;  // the peak by the rule, without a run; not beside `rule`
  std::optional<result::Strategy> rule;
  std::optional<result::Strategy> exact;

  const result::Strategy& strategy() const { return exact ? *exact : *rule; }
  // Memory of the tensors and of what lies outside the allocator. The rule computes both exactly,
  // and reserved memory is never less than the tensors.
  double least_peak() const { return peak_by_rule().low; }
  const result::Estimate& peak_by_rule() const { return rule ? rule->peak : *memory; }
  // True if a search for strategies below `limit` within `room` needs no further run of this
  // candidate.
  bool enough(double limit, double room) const;
};

struct Order {
  std::vector<std::string> overrides;
  // The engine runs if the candidate is, by the rule, no larger than `memory`, and the allocator is
  // replayed if it is then faster than `limit`.
  double limit = std::numeric_limits<double>::infinity();
  double memory = std::numeric_limits<double>::infinity();
  bool replay_only = false;  // the result by the rule is already known
};

std::string packed(const Order& order);
Order order_of(const std::string& text);

// Throws Stopped if `stop` is set before the evaluation has ended.
Evaluation evaluate(const Order& order, Objective objective, const JobLoader& loader,
                    forecast::Forecaster& forecaster, const Stop* stop = nullptr);

// The work of an evaluating thread: packed orders in, evaluations as JSON out. It begins with
// start_of(objective). If `stop` is set, a running order ends with the error "stopped".
MakeWork evaluator(const JobLoader& loader, const std::filesystem::path& data_directory,
                   std::shared_ptr<const Stop> stop = nullptr);
std::string start_of(Objective objective);

// Writes and reads an evaluation as JSON without loss of a bit. The overrides are not included.
std::string to_json(const Evaluation& e);
// Throws InputError where `text` is not such JSON.
Evaluation evaluation_of(const std::string& text, const std::vector<std::string>& overrides);

}  // namespace stepcast::search
