// simulate goodput: the useful share of a long run, after failures and checkpoints.
#include "stepcast/planner/goodput.h"

#include <fmt/format.h>

#include <memory>

#include "../command_line/command_line.h"
#include "../command_line/terminal.h"
#include "../options/job_options.h"
#include "../options/preset_file.h"
#include "../options/quantity_options.h"
#include "../output/outputs.h"
#include "commands.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/planner/plan.h"
#include "stepcast/report/report.h"
#include "stepcast/text/document.h"

namespace stepcast::cli {
namespace {

struct GoodputOptions {
  JobOptions job;
  std::string operations = "default";
  std::string duration = "30 d";
  std::string interval = "auto";
  std::string runs = "200";
  std::string seed = "1";
  std::string json;
};

int run_goodput(const GoodputOptions& given) {
  const config::Loaded loaded = load(given.job);
  const planner::Operations operations =
      planner::read_operations(preset_file("operations", given.operations));
  planner::GoodputRequest request;
  request.between_steps = true;
  request.duration = planner::Seconds(seconds_option("--duration", given.duration, "30d"));
  if (given.interval != "auto") {
    request.interval = planner::Seconds(seconds_option("--interval", given.interval, "30min"));
  }
  request.runs = integer_option("--runs", given.runs, 1);
  request.seed = static_cast<std::uint64_t>(integer_option("--seed", given.seed, 0));
  Outputs outputs;
  outputs.add("--json", given.json);
  forecast::Forecaster forecaster(text::data_directory());
  auto outcome = forecaster.forecast(loaded.job);
  const result::Report& report = forecast_of(outcome, loaded);
  if (!report.fits) {
    write_stderr("the job does not fit in memory: this is the goodput of a step that cannot run\n");
  }
  const result::Goodput found = planner::goodput(loaded.job, report, operations, request);
  outputs.give("--json", [&] { return report::json(found); });
  outputs.finish("goodput",
                 [&] { return report::terminal(found, terminal_colour(), terminal_width()); });
  return report.fits ? done : cannot_run;
}

}  // namespace

Run add_goodput(Command& app) {
  auto given = std::make_shared<GoodputOptions>();
  add_job_options(app, given->job);
  app.add_option(
         "--operations", given->operations,
         "rates of failures, checkpoints and repairs: a path, or a name in configs/operations")
      .type_name("FILE")
      .show_default();
  app.add_option("--duration", given->duration, "wall-clock time of the run: 30d")
      .type_name("TIME")
      .show_default();
  app.add_option("--interval", given->interval,
                 "training time between two checkpoints; auto: the best")
      .type_name("TIME")
      .show_default();
  app.add_option("--runs", given->runs, "number of runs that are simulated")
      .type_name("N")
      .show_default();
  app.add_option("--seed", given->seed, "seed of the failures").type_name("N").show_default();
  add_output(app, "--json", given->json, "write the answer as JSON");
  app.footer =
      "Examples:\n"
      "  simulate goodput --config llama405b --duration 54d\n"
      "  simulate goodput --config llama70b --interval 30min --operations my-cluster.yaml\n"
      "Exit status: 0 done; 1 the job does not fit in memory; 2 bad input.";
  return [given] { return run_goodput(*given); };
}

}  // namespace stepcast::cli
