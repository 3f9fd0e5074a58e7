// What a training system runs, found by asking.
#include <fmt/format.h>

#include "stepcast/config/config.h"
#include "stepcast/input/input.h"
#include "stepcast/planner/compare.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::planner {

namespace {

// A job whose sizes divide by everything that is asked for below.
constexpr const char* kSmallJob =
    "model: {layers: 8, hidden: 512, heads: 8, kv_heads: 8, head_dim: 64, ffn: 2048, vocab: 1024, "
    "max_positions: 512}\n"
    "cluster: {use: dgx-a100, nodes: 1}\n"
    "workload: {sequence_length: 512, global_batch: 64}\n";

struct TinyJob {
  const char* strategy;
  std::vector<std::string> overrides;
};

// A system's own attention kernel may not join partial results; the question is about its
// strategies.
constexpr const char* kFused = "kernels.attention=flash2";

// The survey's strategies in its order; sequence parallelism is any of Megatron's, a ring and
// Ulysses.
const std::vector<TinyJob>& trials() {
  static const std::vector<TinyJob> all = {
      {"data", {"parallelism.data=8"}},
      {"sharded", {"parallelism.data=8", "parallelism.sharding=zero3"}},
      {"tensor", {"parallelism.tensor=8"}},
      {"pipeline", {"parallelism.pipeline=8"}},
      {"sequence", {"parallelism.tensor=8", "parallelism.sequence_parallel=true"}},
      {"sequence", {"parallelism.context={size: 8, kind: p2p}", kFused}},
      {"sequence", {"parallelism.context={size: 8, kind: a2a}", kFused}},
  };
  return all;
}

// Why the system refuses the job; empty where it runs.
std::string refusal(const std::string& system, const TinyJob& trial) {
  std::vector<std::string> overrides = {"system.use=" + system};
  overrides.insert(overrides.end(), trial.overrides.begin(), trial.overrides.end());
  try {
    const auto plan = strategy::resolve(input::parse(kSmallJob, "a small job", overrides).job);
    const auto* why = std::get_if<Infeasible>(&plan);
    return why != nullptr ? why->reason : "";
  } catch (const InputError& error) {
    return error.faults().front().message;
  }
}

}  // namespace

result::SystemSummary summary(const std::string& system) {
  const job::System preset = config::system(system);
  result::SystemSummary out;
  out.name = system;
  out.alias_of = config::system_alias(system);
  out.generation = preset.generation;
  out.kind = preset.kind;
  const auto mark = [&](const std::string& strategy) -> result::SurveyMark& {
    for (auto& m : out.marks) {
      if (m.strategy == strategy) {
        return m;
      }
    }
    auto& fresh = out.marks.emplace_back();
    fresh.strategy = strategy;
    if (const auto found = preset.survey.find(strategy); found != preset.survey.end()) {
      fresh.survey = found->second;
    }
    return fresh;
  };
  for (const TinyJob& trial : trials()) {
    result::SurveyMark& m = mark(trial.strategy);
    if (m.simulated) {
      continue;
    }
    const std::string why = refusal(system, trial);
    m.simulated = why.empty();
    m.reason = m.simulated ? "" : m.reason.empty() ? why : m.reason;
  }
  mark("automatic").reason = "the plan is the job's: nothing is searched";
  return out;
}

result::SystemDetails details(const std::string& system) {
  result::SystemDetails out;
  out.summary = summary(system);
  for (const auto& d : config::system_defaults(system)) {
    out.defaults.push_back({d.key, d.value, d.source, to_string(d.where)});
  }
  const job::System preset = config::system(system);
  out.schedules = preset.schedules;
  for (const auto& [rule, reason] : preset.cannot) {
    out.limits.emplace_back(rule, reason);
  }
  return out;
}

}  // namespace stepcast::planner
