// Step 4: chooses how each operator of a layer is split over the ranks of a stage. Dynamic
// programming eliminates operators from the graph; the tables hold the cost of each split and of
// resharding between two splits.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "../infinity.h"
#include "../plans/plans.h"
#include "ahp.h"

namespace stepcast::automatic {
namespace {

// True if the axes are used as the job's degrees say: data and context first, then tensor and
// experts.
bool as_degrees(const Splits& splits, bool context) {
  switch (splits[1]) {
    case Split::batch:
    case Split::dispatch_batch:
    case Split::combine_batch:
      return false;
    default:
      break;
  }
  return context || (splits[0] != Split::sequence && splits[0] != Split::dispatch_sequence &&
                     splits[0] != Split::combine_sequence);
}

Chosen choose(const ChoiceProblem& problem) {
  if (auto relaxed = choose_by_relaxation(problem); relaxed && relaxed->chosen.feasible) {
    return relaxed->chosen;
  }
  ChoiceProblem free = problem;  // memory is left to the engine
  free.memory_limit = kInfinity;
  return choose_by_elimination(free).value_or(Chosen{});
}

// Lists every way in which operators with work are split, e.g. "batch x column: qkv, fc1".
std::vector<std::string> ways_of(const StageGraph& graph, const Chosen& chosen) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<std::string>> names;
  for (std::size_t i = 0; i < graph.meanings.size(); ++i) {
    const Meaning& m = graph.meanings[i];
    if (m.flops <= 0) {
      continue;
    }
    const Splits& s = m.options[static_cast<std::size_t>(chosen.choice[i])].splits;
    const std::string way = fmt::format("{} x {}", to_string(s[0]), to_string(s[1]));
    auto& same = names[way];
    if (same.empty()) {
      order.push_back(way);
    }
    if (std::find(same.begin(), same.end(), m.name) == same.end()) {
      same.push_back(m.name);
    }
  }
  std::vector<std::string> out;
  for (const std::string& way : order) {
    std::string all;
    for (const std::string& name : names[way]) {
      all += (all.empty() ? "" : ", ") + name;
    }
    out.push_back(fmt::format("{}: {}", way, all));
  }
  return out;
}

}  // namespace

result::AlgorithmStep Ahp::split() {
  result::AlgorithmStep step{"layer split", "", {}};
  const job::Job job = best_->job;
  const job::Parallelism& p = job.parallelism;
  const auto redo = redo_of(job.memory.recompute);
  const int data = job.cluster.ranks() / (p.tensor * p.context * p.pipeline);
  const double before = best_->strategy.objective;
  StageAsk ask;
  ask.layers = std::max(1, job.model.layers / p.pipeline);
  ask.embedding = ask.head = p.pipeline == 1;
  // Without tensor parallelism the inner axis has the expert-parallel ranks, which are part of the
  // data-parallel ranks.
  const int near = p.tensor > 1 ? p.tensor : std::max(1, p.expert);
  ask.view = {{data * p.context * p.tensor / near, near}};
  ask.micro_batches =
      static_cast<int>(job.workload.global_batch / (job.workload.micro_batch * data));
  ask.in_flight = std::min(p.pipeline, ask.micro_batches);
  ask.redo = redo.value_or(Redo::none);
  ask.shardings = {p.sharding};

  GraphModel model(job, data_);
  const StageGraph graph = model.stage(ask);
  const Chosen chosen = choose(graph.problem);
  if (!chosen.feasible) {
    step.decision = "as the degrees state it: no cut of the graph is known to fit";
    return step;
  }
  // The same problem with the axes used as the degrees say.
  ChoiceProblem bound_to = graph.problem;
  for (std::size_t i = 0; i < graph.meanings.size(); ++i) {
    for (std::size_t j = 0; j < graph.meanings[i].options.size(); ++j) {
      if (p.tensor > 1 && !as_degrees(graph.meanings[i].options[j].splits, p.context > 1)) {
        bound_to.nodes[i].cost[j] = kInfinity;
      }
    }
  }
  const Chosen usual = choose(bound_to);
  step.details.push_back(fmt::format(
      "{} layers on {} x {} ranks: {} a micro-batch; with each axis as the degrees name it {}",
      ask.layers, ask.view.ranks[0], ask.view.ranks[1], seconds_text(chosen.cost),
      usual.feasible && usual.cost < kInfinity ? seconds_text(usual.cost) : "impossible"));
  for (std::string& way : ways_of(graph, chosen)) {
    step.details.push_back(std::move(way));
  }

  // The part that a job can express: equal stages, with one purpose for each axis.
  GraphPlan plan;
  plan.micro_batches = ask.micro_batches;
  plan.redo = ask.redo;
  plan.stages.assign(
      static_cast<std::size_t>(p.pipeline),
      {0, ask.layers, ask.view, chosen.cost, chosen.memory, graph.meanings, chosen.choice});
  const Represented said = represent(job, plan);
  for (const std::string& loss : said.losses) {
    step.details.push_back("as a job: " + loss);
  }
  std::vector<std::string> all;
  for (const std::string& text : said.overrides) {
    const std::string key = text.substr(0, text.find('='));
    const bool of_splits = key == "parallelism.tensor" || key == "parallelism.context" ||
                           key == "parallelism.expert" || key == "parallelism.expert_tensor" ||
                           key == "parallelism.sequence_parallel" || key == "workload.micro_batch";
    if (of_splits && free(key, text.substr(text.find('=') + 1))) {
      all.push_back(text);
    }
  }
  std::vector<std::vector<std::string>> ways = {all};
  if (p.tensor > 1) {
    const char* other = p.sequence_parallel ? "false" : "true";
    if (free("parallelism.sequence_parallel", other)) {
      ways.push_back({fmt::format("parallelism.sequence_parallel={}", other)});
    }
  }
  if (job.model.moe && p.tensor > 1) {
    const std::string other = std::to_string(p.expert_tensor == 1 ? p.tensor : 1);
    if (free("parallelism.expert_tensor", other)) {
      ways.push_back({"parallelism.expert_tensor=" + other});
    }
  }
  step.decision = "as the degrees state";
  for (const auto& way : ways) {
    const auto overrides = with(way);
    std::string why;
    auto tried = simulate(overrides, why);
    std::string text;
    for (const std::string& one : way) {
      text += (text.empty() ? "" : " ") + one.substr(one.find('.') + 1);
    }
    step.details.push_back(
        fmt::format("{}: {}", text, tried ? outcome_text(tried->strategy, before) : why));
    if (take(std::move(tried))) {
      step.decision = text;
    }
  }
  return step;
}

}  // namespace stepcast::automatic
