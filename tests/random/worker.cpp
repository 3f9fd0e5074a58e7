// Forecasts job after job for random_jobs.py, which has the laws: calibration is read once, and
// what a forecaster keeps between jobs is tried by the way.
//
// A request is a line of JSON: {"job": text, "set": [KEY=VALUE...], "fidelity": NAME, "fresh":
// BOOL, "most_tasks": N}. The answer is a line of JSON, {"status", "error", "bytes"}, and so many
// bytes of report: what `simulate --config job.json --no-advice --json -` exits with and writes. A
// request that takes a minute of processor time ends the worker.
#include <fmt/format.h>
#include <sys/time.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/config/config.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/input/input.h"
#include "stepcast/planner/run_cost.h"
#include "stepcast/report/report.h"
#include "stepcast/report/run_cost.h"
#include "stepcast/text/document.h"

using namespace stepcast;
using Json = nlohmann::json;

namespace {

constexpr int kSeconds = 60;
constexpr int kJobsOfAForecaster = 64;  // it keeps every topology that it was asked about

// As simulate computes it where a job states its tokens.
std::optional<result::RunCost> whole_run(const job::Job& job, const result::Report& report) {
  if (!job.workload.tokens) {
    return std::nullopt;
  }
  const auto configs = text::data_directory() / "configs";
  static const planner::Catalogue catalogue =
      planner::read_catalogue(configs / "catalogue" / "default.yaml");
  static const planner::Operations operations =
      planner::read_operations(configs / "operations" / "default.yaml");
  planner::RunRequest request;
  request.catalogue = catalogue;
  request.operations = &operations;
  return planner::run_cost(job, report, request);
}

struct Answer {
  int status = 0;
  std::string error;
  std::string report;
};

Answer answer(const Json& request, forecast::Forecaster& forecaster) {
  forecast::Options options;
  options.fidelity = parse<forecast::Fidelity>(request.at("fidelity").get<std::string>()).value();
  options.most_tasks = request.value("most_tasks", options.most_tasks);
  Answer out;
  try {
    const config::Loaded loaded = input::parse(request.at("job").get<std::string>(), "job.json",
                                               request.at("set").get<std::vector<std::string>>());
    auto outcome = forecaster.forecast(loaded.job, options);
    if (const auto* why = std::get_if<Infeasible>(&outcome)) {
      throw InputError(config::fault_of(loaded, *why));
    }
    auto& report = std::get<result::Report>(outcome);
    report.job_json = config::to_json(loaded.job);
    out = {report.fits ? 0 : 1, "", report::json(report, whole_run(loaded.job, report))};
  } catch (const InputError& error) {
    out.status = 2;
    for (const Fault& fault : error.faults()) {
      out.error += to_string(fault) + "\n";
    }
  } catch (const std::overflow_error& error) {  // of times, as cli/command_line.cpp
    out = {2, fmt::format("simulate: error: {}\n", error.what()), ""};
  }
  return out;
}

void allow(int seconds) {
  const itimerval limit{{0, 0}, {seconds, 0}};
  setitimer(ITIMER_PROF, &limit, nullptr);
}

}  // namespace

int main() {
  std::optional<forecast::Forecaster> warm;
  int jobs = 0;
  for (std::string line; std::getline(std::cin, line);) {
    const Json request = Json::parse(line);
    allow(kSeconds);
    Answer out;
    if (request.value("fresh", false)) {
      forecast::Forecaster fresh(text::data_directory());
      out = answer(request, fresh);
    } else {
      if (jobs++ % kJobsOfAForecaster == 0) {
        warm.emplace(text::data_directory());
      }
      out = answer(request, *warm);
    }
    allow(0);
    const Json head = {{"status", out.status}, {"error", out.error}, {"bytes", out.report.size()}};
    std::cout << head.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n'
              << out.report << std::flush;
  }
}
