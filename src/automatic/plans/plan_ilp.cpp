#include <algorithm>
#include <cmath>

#include "../infinity.h"
#include "plans.h"
#include "stage_planner.h"
#include "stepcast/model/operators.h"

namespace stepcast::automatic {
namespace {

// A stage that is as fast as without a memory limit, up to rounding, is already proven optimal.
constexpr double kSettled = 1e-9;
// Time limit for the program of one stage. Its best solution is then used without proof (Alpa's own
// limit is 600 s).
constexpr double kSeconds = 600;
// The user's rules are tried with at most this many stages.
constexpr int kMaxStages = 64;

// Solves the stages of the final plan by integer programs, to close the gap that relaxation left.
void settle(GraphModel& model, const StageSearch& search, GraphPlan& plan) {
  std::vector<PlannedStage> timed;
  const int layers = model::layer_count(model.job().model);
  plan.proven = !plan.stages.empty();
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    GraphStage& s = plan.stages[i];
    const StageAsk ask = stage_ask(plan.setting, s.first_layer, s.layers, layers, s.view,
                                   static_cast<int>(plan.stages.size() - 1 - i));
    const ChoiceProblem problem = model.stage(ask).problem;
    ChoiceProblem free = problem;
    free.memory_limit = kInfinity;
    const auto least = choose_by_elimination(free);
    if (!least || least->cost < s.time * (1 - kSettled)) {
      const Chosen c = choose_by_ilp(problem, kSeconds);
      plan.proven = plan.proven && c.proven;
      ++plan.solved;
      if (c.feasible && c.cost < s.time) {
        s = stage_of(model, ask, c.choice);
      }
    }
    timed.push_back({0, 0, 0, s.time});
  }
  if (!timed.empty()) {
    StageProblem law;
    law.latency = search.latency;
    law.micro_batches = plan.micro_batches;
    law.virtual_stages = plan.setting.virtual_stages;
    plan.latency = latency_of(law, timed);
  }
}

// The numbers of stages to try one by one if the user's rules name stages; otherwise any number.
std::vector<int> stage_counts(const Frame& frame, const job::Job& job) {
  if (frame.layers_at.empty()) {
    return {0};
  }
  int least = 1;
  for (const LayersAt& at : frame.layers_at) {
    least = std::max(least, at.stage + 1);
  }
  std::vector<int> out;
  const int most = std::min({kMaxStages, model::layer_count(job.model), job.cluster.ranks()});
  for (int n = least; n <= most; ++n) {
    out.push_back(n);
  }
  return out;
}

}  // namespace

GraphPlan plan_by_ilp(GraphModel& model, const Frame& frame, const StageSearch& search,
                      const std::vector<Form>* forms, StageMemo* memo) {
  StageMemo own;
  StageMemo& stages_known = memo != nullptr ? *memo : own;
  struct Try {
    Setting setting;
    const Form* form = nullptr;
    double least = kInfinity;
  };
  std::vector<Try> tries;
  const auto add = [&](Setting&& setting, const Form* form) {
    if (setting.stages <= most_stages(search, setting.micro_batches)) {
      tries.push_back({std::move(setting), form, kInfinity});
    }
  };
  if (forms != nullptr) {
    for (const Form& form : *forms) {
      add(setting_of(frame, form), &form);
    }
  } else {
    for (const int micro_batches : counts_of_micro_batches(model.job(), frame)) {
      for (const Redo redo : frame.redos) {
        for (const int stages : stage_counts(frame, model.job())) {
          Setting setting = setting_of(frame, micro_batches, redo);
          setting.stages = stages;
          setting.layers_at = frame.layers_at;
          add(std::move(setting), nullptr);
        }
      }
    }
  }
  // Settings with the smallest lower bounds come first. A setting whose bound is not below the best
  // plan is never planned.
  std::int64_t solved = 0;
  for (Try& t : tries) {
    StagePlanner planner(model, t.setting, search, stages_known);
    t.least = planner.least();
    solved += planner.solved();
  }
  std::stable_sort(tries.begin(), tries.end(),
                   [](const Try& a, const Try& b) { return a.least < b.least; });
  GraphPlan best;
  for (Try& t : tries) {
    if (t.least >= best.latency) {
      break;
    }
    GraphPlan found = StagePlanner(model, t.setting, search, stages_known).plan(best.latency);
    solved += found.solved;
    if (found.latency < best.latency) {
      best = std::move(found);
      best.setting = t.setting;
      if (t.form != nullptr) {
        best.form = *t.form;
      }
    }
  }
  best.solved = solved;
  settle(model, search, best);
  return best;
}

}  // namespace stepcast::automatic
