#include "stepcast/search/algorithms.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "../explain.h"
#include "../objective.h"
#include "bound_fitness.h"
#include "degrees.h"
#include "ilp.h"
#include "plans.h"

namespace stepcast::search {
namespace {

using result::AlgorithmAnswer;

// nnScaler's default (max_pipeline_bubble_ratio).
constexpr double kBubble = 0.2;

class Runner {
 public:
  Runner(const Request& request, const AlgorithmRequest& algorithms, const job::Job& base,
         const JobLoader& loader, const std::filesystem::path& data)
      : request_(request),
        algorithms_(algorithms),
        base_(base),
        loader_(loader),
        data_(data),
        forecaster_(data) {}

  AlgorithmAnswer run(const std::string& name) {
    AlgorithmAnswer out;
    out.name = name;
    const auto start = std::chrono::steady_clock::now();
    if (name == "exact") {
      exact(out);
    } else if (name == "evolutionary" || name == "annealing") {
      degrees(out);
    } else {
      graph(out);
    }
    out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return out;
  }

 private:
  void exact(AlgorithmAnswer& out) {
    const result::Search found = search(request_, loader_, data_);
    out.found = found.found;
    out.why_not = found.nearest;
    out.tried = found.counts.candidates;
    out.tried_unit = "candidates bounded";
    if (found.found) {
      out.strategy = found.best;
      out.plan = found.gap > 0 ? fmt::format("gap {:.2f} %", 100 * found.gap) : "optimal";
    }
  }

  // The job of these overrides, by the engine.
  std::optional<result::Strategy> forecast(const std::vector<std::string>& overrides,
                                           std::string& why) {
    auto loaded = loader_(overrides);
    if (const auto* no = std::get_if<Infeasible>(&loaded)) {
      why = no->reason;
      return std::nullopt;
    }
    const auto& job = std::get<job::Job>(loaded);
    const auto outcome = forecaster_.forecast(job);
    if (const auto* no = std::get_if<Infeasible>(&outcome)) {
      why = no->reason;
      return std::nullopt;
    }
    return strategy_of(std::get<result::Report>(outcome), job, overrides, request_.objective, true);
  }

  // The engine runs what the bound likes best, until no other can be better.
  void degrees(AlgorithmAnswer& out) {
    BoundFitness fitness(request_, base_, loader_, forecaster_);
    const DegreeProblem problem{fitness.sizes(), [&](const Genome& g) { return fitness(g); }};
    DegreeSearch search;
    search.seed = algorithms_.seed;
    const DegreeAnswer found =
        out.name == "annealing" ? anneal(problem, search) : evolve(problem, search);
    out.tried = found.evaluated;
    out.tried_unit = "candidates bounded";
    out.why_not = "no point that was tried keeps to memory by its bound";
    int simulated = 0;
    for (const auto& [bound, genome] : found.best) {
      if (out.found && bound >= out.strategy.objective) {
        break;
      }
      std::string why;
      auto strategy = forecast(fitness.overrides(genome), why);
      ++simulated;
      if (!strategy || !strategy->fits) {
        out.why_not = strategy ? "none of the best by bound fits in memory" : why;
        continue;
      }
      if (!out.found || strategy->objective < out.strategy.objective) {
        out.found = true;
        out.strategy = std::move(*strategy);
        out.predicted = bound;
      }
    }
    out.plan = fmt::format("best of {} simulated", simulated);
  }

  Frame frame() const {
    Frame out;
    out.micro_batches = {base_.workload.micro_batch};
    if (const Dimension* d = request_.space.find("workload.micro_batch")) {
      out.micro_batches.clear();
      for (const std::string& text : d->values) {
        out.micro_batches.push_back(text::to_integer(
            text::Value{text::Value::Kind::scalar, d->origin, text, false, {}, {}}));
      }
    }
    const auto redo_of = [](const job::Recompute& r) -> std::optional<Redo> {
      switch (r.kind) {
        case job::Recompute::Kind::none:
          return Redo::none;
        case job::Recompute::Kind::selective:
          return Redo::selective;
        case job::Recompute::Kind::full:
          return Redo::full;
        default:
          return std::nullopt;  // what the graph has no word for
      }
    };
    const auto values = [&](const char* key, auto&& take) {
      const Dimension* d = request_.space.find(key);
      if (d == nullptr) {
        take(base_);
        return;
      }
      for (const std::string& text : d->values) {
        auto loaded = loader_({fmt::format("{}={}", key, text)});
        if (const auto* job = std::get_if<job::Job>(&loaded)) {
          take(*job);
        }
      }
    };
    values("memory.recompute", [&](const job::Job& job) {
      if (const auto redo = redo_of(job.memory.recompute)) {
        out.redos.push_back(*redo);
      }
    });
    values("parallelism.sharding",
           [&](const job::Job& job) { out.shardings.push_back(job.parallelism.sharding); });
    if (out.redos.empty()) {
      out.redos.push_back(Redo::none);
    }
    return out;
  }

  // Operators may be cut as the space allows jobs to be.
  Allowed allowed() const {
    const bool context = request_.space.find("parallelism.context") != nullptr;
    const bool expert = request_.space.find("parallelism.expert") != nullptr;
    return [context, expert](const model::Operator& op, const Splits& splits, const View&) {
      return std::none_of(splits.begin(), splits.end(), [&](Split s) {
        return (!context && op.attention && s == Split::sequence) ||
               (!expert && s == Split::expert);
      });
    };
  }

  void graph(AlgorithmAnswer& out) {
    GraphModel model(base_, data_, allowed());
    const Frame frame = this->frame();
    GraphPlan plan;
    if (out.name == "flexflow") {
      Walk walk;
      walk.seed = algorithms_.seed;
      plan = plan_by_walk(model, frame, walk);
      out.tried_unit = "moves";
    } else {
      StageSearch search;
      if (out.name == "nnscaler") {
        search.latency = StageProblem::Latency::slowest;
        search.most_bubble = kBubble;
      }
      plan = plan_by_ilp(model, frame, search);
      out.tried_unit = "stages priced";
    }
    out.tried = plan.solved;
    if (plan.stages.empty()) {
      out.why_not = "no cut of the graph fits in memory";
      return;
    }
    out.predicted = plan.latency;
    out.plan = text_of(plan);
    Represented job = represent(base_, plan);
    out.losses = std::move(job.losses);
    std::vector<std::string> overrides;
    for (const std::string& text : job.overrides) {
      const std::string key = text.substr(0, text.find('='));
      if (request_.space.find(key) != nullptr || key == "parallelism.layers_per_stage") {
        overrides.push_back(text);
      }
    }
    auto strategy = forecast(overrides, out.why_not);
    if (strategy) {
      out.found = true;
      out.strategy = std::move(*strategy);
    }
  }

  static std::string text_of(const GraphPlan& plan) {
    std::string out;
    std::vector<std::pair<std::string, int>> groups;
    for (const GraphStage& s : plan.stages) {
      const std::string one =
          fmt::format("{} layers on {} x {} GPUs", s.layers, s.view.ranks[0], s.view.ranks[1]);
      if (!groups.empty() && groups.back().first == one) {
        ++groups.back().second;
      } else {
        groups.push_back({one, 1});
      }
    }
    for (const auto& [text, times] : groups) {
      out += fmt::format("{}{} x ({})", out.empty() ? "" : ", ", times, text);
    }
    return fmt::format("{}; {} micro-batches", out, plan.micro_batches);
  }

  const Request& request_;
  const AlgorithmRequest& algorithms_;
  const job::Job& base_;
  const JobLoader& loader_;
  const std::filesystem::path& data_;
  forecast::Forecaster forecaster_;
};

}  // namespace

const std::vector<std::string>& algorithm_names() {
  static const std::vector<std::string> names = {"exact",    "alpa",         "nnscaler",
                                                 "flexflow", "evolutionary", "annealing"};
  return names;
}

result::Algorithms run_algorithms(const Request& request, const AlgorithmRequest& algorithms,
                                  const job::Job& base, const JobLoader& loader,
                                  const std::filesystem::path& data_directory) {
  const auto fault = [](const std::string& message) {
    return InputError({{"--algorithm", 0, 0}, message});
  };
  for (const std::string& name : algorithms.names) {
    const auto& known = algorithm_names();
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      const std::string near = nearest(name, known);
      throw fault(fmt::format("unknown algorithm '{}'; expected all or one of {}{}", name,
                              fmt::join(known, ", "),
                              near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near)));
    }
    if ((name == "alpa" || name == "nnscaler") && !have_ilp_solver()) {
      throw fault(fmt::format(
          "{} solves integer programs, and this build has no solver; install coinor-libcbc-dev "
          "and build again",
          name));
    }
  }
  Runner runner(request, algorithms, base, loader, data_directory);
  result::Algorithms out;
  out.objective = to_string(request.objective);
  for (const std::string& name : algorithms.names) {
    out.answers.push_back(runner.run(name));
  }
  return out;
}

}  // namespace stepcast::search
