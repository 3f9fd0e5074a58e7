#include "ahp.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>

#include "../degrees/degree_run.h"
#include "stepcast/search/explore.h"
#include "stepcast/search/objective.h"
#include "stepcast/search/strategy.h"
#include "stepcast/strategy/plan.h"
#include "stepcast/terms/parallelism.h"

namespace stepcast::automatic {
namespace {

// Number of combinations that branch and bound enumerates in a few seconds (tens of nanoseconds
// each).
constexpr double kInReach = 2e7;

std::string key_of(const std::string& override_text) {
  return override_text.substr(0, override_text.find('='));
}

// True if the keys are equal or one is inside the other.
bool touches(const std::string& a, const std::string& b) {
  return a == b || a.starts_with(b + ".") || b.starts_with(a + ".");
}

double combinations(const search::Space& space) {
  double out = 1;
  for (const search::Dimension& d : space.dimensions) {
    out *= static_cast<double>(d.values.size());
  }
  return out;
}

int pipeline_of(const std::vector<std::string>& overrides) {
  for (const std::string& text : overrides) {
    if (key_of(text) == "parallelism.pipeline") {
      return std::stoi(text.substr(text.find('=') + 1));
    }
  }
  return 0;
}

// For every other number of stages, the best strategy that was simulated, whether or not it fits in
// memory.
std::vector<std::vector<std::string>> alternatives(const std::vector<result::Strategy>& simulated,
                                                   const std::vector<std::string>& best) {
  std::map<int, const result::Strategy*> of;
  for (const result::Strategy& strategy : simulated) {
    if (const int stages = pipeline_of(strategy.overrides); stages >= 1) {
      auto& kept = of[stages];
      kept = kept == nullptr || strategy.objective < kept->objective ? &strategy : kept;
    }
  }
  std::vector<std::vector<std::string>> out;
  for (const auto& [stages, strategy] : of) {
    if (stages != pipeline_of(best)) {
      out.push_back(strategy->overrides);
    }
  }
  return out;
}

}  // namespace

std::string seconds_text(double seconds) {
  return seconds >= 1      ? fmt::format("{:.3f} s", seconds)
         : seconds >= 1e-3 ? fmt::format("{:.2f} ms", seconds * 1e3)
                           : fmt::format("{:.1f} us", seconds * 1e6);
}

std::string gib_text(double bytes) { return fmt::format("{:.1f} GiB", bytes / (1 << 30)); }

std::string outcome_text(const result::Strategy& found, double before) {
  return fmt::format("{} ({:+.2f} %), {}{}", seconds_text(found.step_time.value),
                     before > 0 ? 100 * (found.objective / before - 1) : 0.0,
                     gib_text(found.peak.value), found.fits ? "" : ", does not fit");
}

Ahp::Ahp(const Inputs& in)
    : in_(in),
      request_(in.request),
      algorithms_(in.algorithms),
      base_(in.base),
      loader_(in.loader),
      data_(in.data),
      forecaster_(in.forecaster) {}

std::vector<std::string> changed(std::vector<std::string> overrides,
                                 const std::vector<std::string>& changes) {
  for (const std::string& change : changes) {
    const auto at = std::find_if(overrides.begin(), overrides.end(), [&](const std::string& text) {
      return key_of(text) == key_of(change);
    });
    if (at == overrides.end()) {
      overrides.push_back(change);
    } else {
      *at = change;
    }
  }
  return overrides;
}

std::vector<std::string> Ahp::with(const std::vector<std::string>& changes) const {
  return changed(best_->strategy.overrides, changes);
}

bool Ahp::free(const std::string& key, const std::string& value) const {
  if (const search::Dimension* d = request_.space.find(key)) {
    return std::find(d->values.begin(), d->values.end(), value) != d->values.end();
  }
  return std::none_of(algorithms_.fixed.begin(), algorithms_.fixed.end(),
                      [&](const std::string& text) { return touches(key_of(text), key); });
}

std::optional<Tried> Ahp::simulate(job::Job job, const std::vector<std::string>& overrides,
                                   std::string& why) {
  std::variant<result::Report, Infeasible> outcome = Infeasible{};
  try {
    outcome = forecaster_.forecast(job);
  } catch (const std::exception& error) {
    // A programming error: the step reports it and the search goes on.
    outcome = Infeasible{"", fmt::format("simulate: error: {}", error.what())};
  }
  if (const auto* no = std::get_if<Infeasible>(&outcome)) {
    why = no->reason;
    return std::nullopt;
  }
  ++simulated_;
  auto& report = std::get<result::Report>(outcome);
  Tried out{search::strategy_of(report, job, overrides, request_.objective, true), std::move(job),
            std::move(report)};
  return out;
}

std::optional<Tried> Ahp::simulate(const std::vector<std::string>& overrides, std::string& why) {
  auto loaded = loader_(overrides);
  if (const auto* no = std::get_if<Infeasible>(&loaded)) {
    why = no->reason;
    return std::nullopt;
  }
  return simulate(std::get<job::Job>(std::move(loaded)), overrides, why);
}

bool Ahp::take(std::optional<Tried> tried) {
  if (!tried || !tried->strategy.fits ||
      (best_ && tried->strategy.objective >= best_->strategy.objective)) {
    return false;
  }
  best_ = std::move(tried);
  return true;
}

std::optional<bound::Result> Ahp::bound_of(const job::Job& job) {
  auto plan = strategy::resolve(job);
  auto bounds = forecaster_.bounds(job);
  if (!std::holds_alternative<strategy::Plan>(plan) ||
      !std::holds_alternative<forecast::Forecaster::Bounds>(bounds)) {
    return std::nullopt;
  }
  const auto found = std::get<forecast::Forecaster::Bounds>(bounds).of.evaluate(
      bound::candidate_of(std::get<strategy::Plan>(plan)));
  return found.feasible ? std::optional(found) : std::nullopt;
}

void Ahp::run(result::AlgorithmAnswer& out) {
  analyse(out);
  out.steps.push_back(hardware());
  out.steps.push_back(degrees(out));
  if (best_) {
    out.steps.push_back(split());
    out.steps.push_back(sharding());
    result::AlgorithmStep stages = layers();
    for (result::AlgorithmStep more : {batches(), schedule(out)}) {
      stages.decision += more.decision.empty() ? "" : "; " + more.decision;
      stages.details.insert(stages.details.end(), more.details.begin(), more.details.end());
    }
    out.steps.push_back(std::move(stages));
    out.found = true;
    out.strategy = best_->strategy;
    if (const auto least = bound_of(best_->job)) {
      out.predicted =
          to_seconds(least->step) * search::per_second(request_.objective, best_->job.cluster);
    }
  }
  out.plan = fmt::format("{} simulated after the degrees", simulated_);
}

result::AlgorithmStep Ahp::degrees(result::AlgorithmAnswer& out) {
  using Degrees = AlgorithmRequest::Degrees;
  result::AlgorithmStep step{"degrees", "", {}};
  const double all = combinations(request_.space);
  const bool exact = algorithms_.degrees == Degrees::exact ||
                     (algorithms_.degrees == Degrees::automatic && all <= kInReach);
  out.tried_unit = "candidates bounded";
  std::string how;
  std::vector<std::string> found;
  std::vector<result::Strategy> seen;
  if (exact) {
    search::Explored explored = search::explore(request_, loader_, data_, "degrees");
    out.tried = explored.candidates;
    how = fmt::format("branch and bound over {:.4g} combinations, {} simulated", all,
                      explored.evaluated);
    if (explored.best) {
      found = explored.best->overrides;
      seen = std::move(explored.simulated);
      if (explored.stopped) {
        how += fmt::format(", stopped with a gap of {:.2f} %", 100 * explored.gap);
      }
    } else {
      out.why_not = explored.why_none;
    }
  } else {
    const bool walks = algorithms_.degrees == Degrees::annealing;
    DegreeRun run = search_degrees(
        walks ? anneal : evolve, in_,
        [&](const auto& overrides, std::string& why) -> std::optional<result::Strategy> {
          auto tried = simulate(overrides, why);
          if (!tried) {
            return std::nullopt;
          }
          seen.push_back(tried->strategy);
          return std::move(tried->strategy);
        });
    out.tried = run.evaluated;
    how =
        fmt::format("{} over {:.4g} combinations, {} bounded, {} simulated",
                    walks ? "simulated annealing" : "evolution", all, run.evaluated, run.simulated);
    if (run.best) {
      found = run.best->overrides;
    } else {
      out.why_not = run.why_not;
    }
  }
  step.details.push_back(how);
  if (!base_.cluster.overrides.empty()) {
    alternatives_ = alternatives(seen, found);
  }
  simulated_ = 0;
  std::string why;
  if (found.empty() || !take(simulate(found, why))) {
    step.decision = "none: " + (out.why_not.empty() ? why : out.why_not);
    return step;
  }
  const job::Job& job = best_->job;
  const job::Parallelism& p = job.parallelism;
  const int data = job.cluster.ranks() / (p.tensor * p.context * p.pipeline);
  step.decision = fmt::format(
      "data {} x tensor {} x pipeline {}{}{}{}, micro-batch {}: {}", data, p.tensor, p.pipeline,
      p.virtual_pipeline > 1 ? fmt::format(" x {} chunks", p.virtual_pipeline) : "",
      p.context > 1 ? fmt::format(" x context {}", p.context) : "",
      p.expert > 1 ? fmt::format(", expert {}", p.expert) : "", job.workload.micro_batch,
      seconds_text(best_->strategy.step_time.value));
  return step;
}

result::AlgorithmStep Ahp::sharding() {
  result::AlgorithmStep step{"optimizer states", "", {}};
  constexpr const char* kKey = "parallelism.sharding";
  const double before = best_->strategy.objective;
  const Sharding now = best_->job.parallelism.sharding;
  const std::vector<std::string> start = best_->strategy.overrides;
  for (const auto& [sharding, name] : spellings(Sharding{})) {
    const std::string change = fmt::format("{}={}", kKey, name);
    if (sharding != now && !free(kKey, name)) {
      continue;
    }
    auto loaded = loader_(sharding == now ? start : with({change}));
    if (const auto* no = std::get_if<Infeasible>(&loaded)) {
      step.details.push_back(fmt::format("{}: {}", name, no->reason));
      continue;
    }
    const auto& job = std::get<job::Job>(loaded);
    const auto least = bound_of(job);
    std::string text =
        least ? fmt::format("{}: at least {}, {}", name, seconds_text(to_seconds(least->step)),
                            gib_text(static_cast<double>(least->memory.count())))
              : std::string(name);
    const double rate = search::per_second(request_.objective, job.cluster);
    std::string why;
    if (sharding == now) {
      text += "; forecast " + outcome_text(best_->strategy, before);
    } else if (least && least->memory > best_->report.capacity) {
      text += "; does not fit";
    } else if (least && to_seconds(least->step) * rate >= best_->strategy.objective) {
      text += "; cannot be faster";
    } else if (auto tried = simulate(job, with({change}), why)) {
      text += "; forecast " + outcome_text(tried->strategy, before);
      take(std::move(tried));
    } else {
      text += "; " + why;
    }
    step.details.push_back(std::move(text));
  }
  step.decision = to_string(best_->job.parallelism.sharding);
  return step;
}

}  // namespace stepcast::automatic
