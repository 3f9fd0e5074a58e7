// simulate explain: where the predicted time goes, how uncertain it is, and how a measured step
// compares.
#include "stepcast/forecast/explain.h"

#include <fmt/format.h>

#include <memory>
#include <optional>

#include "../command_line/command_line.h"
#include "../command_line/terminal.h"
#include "../options/job_options.h"
#include "../options/profiled.h"
#include "../options/quantity_options.h"
#include "../output/outputs.h"
#include "commands.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/report/report.h"
#include "stepcast/text/document.h"
#include "stepcast/trace/explain.h"

namespace stepcast::cli {
namespace {

struct ExplainOptions {
  JobOptions job;
  std::string measured, json;
  std::vector<std::string> traces;
};

// The step that the profiles show: that of the slowest rank.
std::optional<double> profiled_seconds(const std::vector<result::TraceExplanation>& profiles) {
  std::optional<double> out;
  for (const result::TraceExplanation& profile : profiles) {
    out = std::max(out.value_or(0), to_seconds(profile.measured));
  }
  return out;
}

std::vector<result::TraceExplanation> explain_profiles(const ExplainOptions& given,
                                                       const job::Job& job,
                                                       const result::Report& report) {
  std::vector<result::TraceExplanation> out;
  if (given.traces.empty()) {
    return out;
  }
  result::TraceProfile profile = trace::profile_files({given.traces.begin(), given.traces.end()});
  for (const result::TraceRank& rank : profile.ranks) {
    const int stage = profiled_stage(rank, job);
    const calibrate::WorkVerdict work = work_verdict(rank, job, report, stage);
    if (!work.refused.empty()) {
      throw InputError(Fault{{rank.file, 0, 0}, work.refused + "; expected a profile of this job"});
    }
    auto explained = trace::explain(rank, report, stage);
    if (!explained) {
      throw InputError(Fault{{rank.file, 0, 0}, "holds no work of a device; nothing to explain"});
    }
    if (const std::string why = unlike_job(rank, job); !why.empty()) {
      explained->notes.push_back(why);
    }
    if (!work.note.empty()) {
      explained->notes.push_back(work.note);
    }
    out.push_back(std::move(*explained));
  }
  return out;
}

int run_explain(const ExplainOptions& given) {
  std::optional<double> measured;
  if (!given.measured.empty()) {
    measured = seconds_option("--measured", given.measured, "1.23s");
  }
  const config::Loaded loaded = load(given.job);
  Outputs outputs;
  outputs.add("--json", given.json);
  forecast::Forecaster forecaster(text::data_directory());
  forecast::Options options;
  options.threads = 0;
  options.trace = !given.traces.empty();
  auto outcome = forecaster.forecast(loaded.job, options);
  result::Report& report = forecast_of(outcome, loaded);
  report.job_json = config::to_json(loaded.job);
  auto profiles = explain_profiles(given, loaded.job, report);
  result::Explanation explanation =
      forecast::explain(report, measured ? measured : profiled_seconds(profiles));
  explanation.profiles = std::move(profiles);
  outputs.give("--json", [&] { return report::json(explanation); });
  outputs.finish("explain", [&] {
    return report::terminal(explanation, terminal_colour(), terminal_width());
  });
  return done;
}

}  // namespace

Run add_explain(Command& app) {
  auto given = std::make_shared<ExplainOptions>();
  add_job_options(app, given->job);
  app.add_option("--measured", given->measured,
                 "measured time of a step of this job, such as 1.23s")
      .type_name("TIME");
  app.add_option(
         "--trace", given->traces,
         "traces of PyTorch's profiler of this job, one for each rank: their steps phase by "
         "phase beside the forecast, the largest difference first")
      .type_name("FILE...");
  add_seed_option(app, given->job);
  add_output(app, "--json", given->json, "write the explanation as JSON");
  app.footer =
      "Examples:\n"
      "  simulate explain --config llama70b.yaml\n"
      "  simulate explain --config llama70b.yaml --measured 9.1s\n"
      "  simulate explain --config llama70b.yaml --trace rank0.json.gz\n"
      "Exit status: 0 done (whether the job fits in memory or not); 2 bad input.";
  return [given] { return run_explain(*given); };
}

}  // namespace stepcast::cli
