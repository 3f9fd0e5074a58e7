// simulate calibrate runs: measured steps to a site calibration.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "../command_line/command_line.h"
#include "commands.h"
#include "site_output.h"
#include "stepcast/calibrate/runs.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/runs/read.h"
#include "stepcast/text/document.h"
#include "stepcast/text/map.h"
#include "stepcast/validate/measured_step.h"

namespace stepcast::cli {
namespace {

struct CalibrateRunsOptions {
  std::vector<std::string> files, check;
  SiteOutput site;
  std::string device, system;
};

// Adds the steps of a file of runs, and to `skipped` every run without one and its reason. Throws
// InputError with every run whose job is at fault.
void read_steps(const std::string& file, forecast::Forecaster& forecaster,
                std::vector<result::MeasuredStep>& steps,
                std::vector<result::SiteSkipped>& skipped) {
  text::Faults faults;
  for (const runs::Run& run : runs::read(file)) {
    faults.guarded([&] {
      auto step = validate::measured_step(forecaster, run);
      if (auto* measured = std::get_if<result::MeasuredStep>(&step)) {
        steps.push_back(std::move(*measured));
      } else {
        skipped.push_back(
            {run.id, run.file, run.origin.line, std::get<validate::Refused>(step).reason});
      }
    });
  }
  faults.done();
}

int run_calibrate_runs(const CalibrateRunsOptions& given) {
  if (given.files.empty()) {
    throw option_fault("calibrate runs", "no file given; expected JSON lines of measured runs");
  }
  calibrate::SiteOptions options;
  options.name = given.site.name.empty()
                     ? std::filesystem::path(given.files.front()).stem().string()
                     : given.site.name;
  options.device = given.device;
  options.system = given.system;
  const std::string target = site_file(given.site, options.name);
  options.progress = site_progress("forecasts of all rows");
  const auto data = text::data_directory();
  forecast::Forecaster forecaster(data);
  std::vector<result::MeasuredStep> steps;
  std::vector<result::SiteSkipped> skipped;
  for (const std::string& file : given.files) {
    read_steps(file, forecaster, steps, skipped);
  }
  for (const std::string& file : given.check) {
    read_steps(file, forecaster, options.check, skipped);
  }
  result::SiteCalibration found = calibrate::calibrate_runs(std::move(steps), options, data);
  found.skipped.insert(found.skipped.begin(), skipped.begin(), skipped.end());

  return write_site("calibrate runs", given.site, target, found);
}

}  // namespace

Run add_calibrate_runs(Command& app) {
  auto given = std::make_shared<CalibrateRunsOptions>();
  app.add_option("rows", given->files,
                 "JSON lines of measured runs: {\"config\": \"job.yaml\", \"measured\": "
                 "{\"step_time\": 8.5}}")
      .type_name("ROWS.jsonl...");
  add_site_output(app, given->site);
  app.add_option("--device", given->device, "use only rows of this device").type_name("NAME");
  app.add_option("--system", given->system, "use only rows of this training system")
      .type_name("NAME");
  app.add_option(
         "--check", given->check,
         "rows that the fit does not use; reports their error before and after it, with intervals")
      .type_name("ROWS.jsonl...");
  app.footer =
      "A line names a job file, or a job in configs/, and states what its step took:\n"
      "  {\"config\": \"job.yaml\", \"measured\": {\"step_time\": 8.5}}\n"
      "  {\"config\": \"job.yaml\", \"set\": [\"cluster.nodes=16\"], \"date\": "
      "\"2026-03-01\", \"measured\": {\"step_time\": [8.7, 8.8, 8.7]}}\n"
      "  {\"config\": \"job.yaml\", \"id\": \"night run\", \"measured\": "
      "{\"tokens_per_second_per_gpu\": 410}}\n"
      "simulate validate reads the same lines; simulate schema --runs prints every quantity.\n"
      "Rows of different sizes, micro-batches, tensor and data sizes separate the parameters; "
      "repeated\n"
      "rows show the noise.\n"
      "Examples:\n"
      "  simulate calibrate runs rows.jsonl --output site.yaml\n"
      "  simulate --config big.yaml --set calibration=[auto,site.yaml]\n"
      "Exit status: 0 done; 1 too few rows, or none that determines a parameter, and nothing is "
      "written; 2 bad input.";
  return [given] { return run_calibrate_runs(*given); };
}

}  // namespace stepcast::cli
