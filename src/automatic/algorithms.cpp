#include "stepcast/automatic/algorithms.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "ahp/ahp.h"
#include "choice/ilp.h"
#include "degrees/degree_run.h"
#include "degrees/degrees.h"
#include "plans/graph_answer.h"
#include "stepcast/search/objective.h"
#include "stepcast/search/strategy.h"

namespace stepcast::automatic {
namespace {

using result::AlgorithmAnswer;

class Runner {
 public:
  Runner(const search::Request& request, const AlgorithmRequest& algorithms, const job::Job& base,
         const search::JobLoader& loader, const std::filesystem::path& data)
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
    } else if (name == "ahp") {
      Ahp(request_, algorithms_, base_, loader_, data_, forecaster_).run(out);
    } else if (name == "evolutionary" || name == "annealing") {
      degrees(out);
    } else {
      answer_on_graph(request_, algorithms_, base_, loader_, data_, forecaster_, out);
    }
    out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return out;
  }

 private:
  void exact(AlgorithmAnswer& out) {
    search::Request request = request_;
    request.best_only = true;
    const result::Search found = search::search(request, loader_, data_);
    out.found = found.found;
    out.why_not = found.nearest;
    out.tried = found.counts.candidates;
    out.tried_unit = "candidates bounded";
    if (found.found) {
      out.strategy = found.best;
      out.proof = found.gap > 0 ? result::Proof::open : result::Proof::proven;
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
    return search::strategy_of(std::get<result::Report>(outcome), job, overrides,
                               request_.objective, true);
  }

  void degrees(AlgorithmAnswer& out) {
    DegreeRun run = search_degrees(
        out.name == "annealing" ? anneal : evolve, algorithms_.seed, request_, base_, loader_,
        forecaster_,
        [&](const auto& overrides, std::string& why) { return forecast(overrides, why); });
    out.found = run.best.has_value();
    if (run.best) {
      out.strategy = std::move(*run.best);
    }
    out.predicted = run.bound;
    out.tried = run.evaluated;
    out.tried_unit = "candidates bounded";
    out.why_not = run.why_not;
    out.plan = fmt::format("best of {} simulated", run.simulated);
  }

  const search::Request& request_;
  const AlgorithmRequest& algorithms_;
  const job::Job& base_;
  const search::JobLoader& loader_;
  const std::filesystem::path& data_;
  forecast::Forecaster forecaster_;
};

}  // namespace

const std::vector<std::string>& algorithm_names() {
  static const std::vector<std::string> names = {"exact",    "ahp",          "alpa",     "nnscaler",
                                                 "flexflow", "evolutionary", "annealing"};
  return names;
}

result::Algorithms run_algorithms(const search::Request& request,
                                  const AlgorithmRequest& algorithms, const job::Job& base,
                                  const search::JobLoader& loader,
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
  check_constraints(algorithms, base, data_directory);
  Runner runner(request, algorithms, base, loader, data_directory);
  result::Algorithms out;
  out.objective = to_string(request.objective);
  for (const std::string& name : algorithms.names) {
    out.answers.push_back(runner.run(name));
  }
  return out;
}

}  // namespace stepcast::automatic
