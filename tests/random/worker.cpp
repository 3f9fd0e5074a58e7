// Forecasts job after job for random_jobs.py, which has the laws: calibration is read once, and
// what a forecaster keeps between jobs is tried by the way.
//
// A request is a line of JSON: {"job": text, "set": [KEY=VALUE...], "fidelity": NAME, "fresh":
// BOOL, "most_tasks": N, "shared": BOOL, "tight": BOOL, "jumps": BOOL}. The answer is a line of
// JSON, {"status", "error", "bytes"}, and so many bytes of report: what `simulate --config job.json
// --no-advice --json -` exits with and writes; "shared" adds what transfers lose to others, which
// no report has; "tight" gives a bound as a search refines it; without "jumps" the engine runs what
// repeats. A request that takes a minute of processor time ends the worker.
#include <fmt/format.h>
#include <sys/time.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/bound/bound.h"
#include "stepcast/config/config.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/input/input.h"
#include "stepcast/planner/run_cost.h"
#include "stepcast/report/report.h"
#include "stepcast/report/run_cost.h"
#include "stepcast/strategy/plan.h"
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
  double shared = 0;  // seconds
};

// What a transfer takes by itself: latency and bytes at its own rate.
Time alone(const program::Price& price) { return price.latency + price.fluid; }

// What one rank's transfers of a task take by themselves; kernels lose nothing to links.
Time alone(const program::World& world, const program::Rank& rank, const program::Task& task) {
  switch (task.kind) {
    case program::TaskKind::collective: {
      const auto role = rank.first_communicator + task.communicator;
      const auto& group = world.communicators[world.communicator_table[role]];
      return alone(world.shapes[group.shape].prices[task.price]);
    }
    case program::TaskKind::exchange: {
      const program::Program& p = world.programs[rank.program];
      Time most{0};
      for (std::uint32_t i = 0; i < task.transfers; ++i) {
        const auto& transfer = p.transfers[task.first_transfer + i];
        const auto role = rank.first_channel + transfer.channel;
        const auto& channel = world.channels[world.channel_table[role]];
        most = std::max(most, alone(world.shapes[channel.shape].prices[transfer.price]));
      }
      return most;
    }
    case program::TaskKind::copy:
      return alone(world.shapes[rank.copy_shape].prices[task.price]);
    case program::TaskKind::kernel:
      break;
  }
  return Time::max();
}

// Seconds by which the step's transfers, of all simulated ranks together, take longer than alone.
double lost_to_others(const result::Report::Trace& trace) {
  double lost = 0;
  for (const program::Slice& slice : trace.timeline.slices) {
    const program::Rank& rank = trace.world.ranks[slice.rank];
    const auto& task = trace.world.programs[rank.program].tasks[slice.task];
    const Time least = alone(trace.world, rank, task);
    lost += to_seconds(slice.end - slice.begin - std::min(least, slice.end - slice.begin));
  }
  return lost;
}

// Raises the step and the memory of a bound to those of the tight one.
void tighten(const job::Job& job, forecast::Forecaster& forecaster, result::Report& report) {
  auto bounds = forecaster.bounds(job);
  const auto plan = strategy::resolve(job);
  if (auto* known = std::get_if<forecast::Forecaster::Bounds>(&bounds)) {
    const auto least = known->of.refine(bound::candidate_of(std::get<strategy::Plan>(plan)));
    report.step_time.value = std::max(report.step_time.value, to_seconds(least.step));
    report.peak.value = std::max(report.peak.value, static_cast<double>(least.memory.count()));
  }
}

Answer answer(const Json& request, forecast::Forecaster& forecaster) {
  forecast::Options options;
  options.fidelity = parse<forecast::Fidelity>(request.at("fidelity").get<std::string>()).value();
  options.most_tasks = request.value("most_tasks", options.most_tasks);
  options.trace = request.value("shared", false);
  options.skip_repeats = request.value("jumps", true);
  Answer out;
  try {
    const config::Loaded loaded = input::parse(request.at("job").get<std::string>(), "job.json",
                                               request.at("set").get<std::vector<std::string>>());
    auto outcome = forecaster.forecast(loaded.job, options);
    if (const auto* why = std::get_if<Infeasible>(&outcome)) {
      throw InputError(config::fault_of(loaded, *why));
    }
    auto& report = std::get<result::Report>(outcome);
    if (request.value("tight", false)) {
      tighten(loaded.job, forecaster, report);
    }
    report.job_json = config::to_json(loaded.job);
    out = {report.fits ? 0 : 1, "", report::json(report, whole_run(loaded.job, report))};
    out.shared = report.trace ? lost_to_others(*report.trace) : 0;
  } catch (const InputError& error) {
    out.status = 2;
    for (const Fault& fault : error.faults()) {
      out.error += to_string(fault) + "\n";
    }
  } catch (const std::overflow_error& error) {  // of times, as cli/command_line/command_line.cpp
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
    const Json head = {{"status", out.status},
                       {"error", out.error},
                       {"bytes", out.report.size()},
                       {"shared", out.shared}};
    std::cout << head.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n'
              << out.report << std::flush;
  }
}
