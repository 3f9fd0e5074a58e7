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
#include "graph_answer.h"
#include "ilp.h"

namespace stepcast::search {
namespace {

using result::AlgorithmAnswer;

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
      answer_on_graph(
          request_, algorithms_, base_, loader_, data_,
          [this](const auto& o, std::string& why) { return forecast(o, why); }, out);
    }
    out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return out;
  }

 private:
  void exact(AlgorithmAnswer& out) {
    Request request = request_;
    request.best_only = true;
    const result::Search found = search(request, loader_, data_);
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
