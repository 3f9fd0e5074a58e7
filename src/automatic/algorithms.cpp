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
#include "inputs.h"
#include "plans/graph_answer.h"
#include "stepcast/base/suggestion.h"

namespace stepcast::automatic {
namespace {

using result::AlgorithmAnswer;

class Runner {
 public:
  explicit Runner(const Inputs& in) : in_(in) {}

  AlgorithmAnswer run(Algorithm algorithm) {
    AlgorithmAnswer out;
    out.name = to_string(algorithm);
    const auto start = std::chrono::steady_clock::now();
    switch (algorithm) {
      case Algorithm::exact:
        exact(out);
        break;
      case Algorithm::ahp:
        Ahp(in_).run(out);
        break;
      case Algorithm::evolutionary:
        degrees(evolve, out);
        break;
      case Algorithm::annealing:
        degrees(anneal, out);
        break;
      case Algorithm::alpa:
      case Algorithm::nnscaler:
      case Algorithm::flexflow:
        answer_on_graph(in_, algorithm, out);
        break;
    }
    out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return out;
  }

 private:
  void exact(AlgorithmAnswer& out) {
    search::Request request = in_.request;
    request.best_only = true;
    const result::Search found = search::search(request, in_.loader, in_.data);
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

  void degrees(DegreeAlgorithm method, AlgorithmAnswer& out) {
    DegreeRun run = search_degrees(method, in_, [&](const auto& overrides, std::string& why) {
      return forecast(in_, overrides, why);
    });
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

  const Inputs in_;
};

}  // namespace

const std::vector<std::string>& algorithm_names() {
  static const std::vector<std::string> names = [] {
    constexpr auto words = words_of<Algorithm>();
    return std::vector<std::string>(words.begin(), words.end());
  }();
  return names;
}

result::Algorithms run_algorithms(const search::Request& request,
                                  const AlgorithmRequest& algorithms, const job::Job& base,
                                  const search::JobLoader& loader,
                                  const std::filesystem::path& data_directory) {
  const auto fault = [](const std::string& message) {
    return InputError({{"--algorithm", 0, 0}, message});
  };
  std::vector<Algorithm> asked;
  for (const std::string& name : algorithms.names) {
    const auto algorithm = parse<Algorithm>(name);
    if (!algorithm) {
      const auto& known = algorithm_names();
      throw fault(fmt::format("unknown algorithm '{}'; expected all or one of {}{}", name,
                              fmt::join(known, ", "), suggestion(name, known)));
    }
    if ((algorithm == Algorithm::alpa || algorithm == Algorithm::nnscaler) && !have_ilp_solver()) {
      throw fault(fmt::format(
          "{} solves integer programs, and this build has no solver; install coinor-libcbc-dev "
          "and build again",
          name));
    }
    asked.push_back(*algorithm);
  }
  check_constraints(algorithms, base, data_directory);
  forecast::Forecaster forecaster(data_directory);
  Runner runner({request, algorithms, base, loader, data_directory, forecaster});
  result::Algorithms out;
  out.objective = to_string(request.objective);
  for (const Algorithm algorithm : asked) {
    out.answers.push_back(runner.run(algorithm));
  }
  return out;
}

}  // namespace stepcast::automatic
