// simulate trace FILES: where the time of profiled steps went, from traces of PyTorch's profiler.
#include "stepcast/validate/trace.h"

#include <fmt/format.h>

#include <memory>

#include "../command_line/command_line.h"
#include "../command_line/terminal.h"
#include "../options/job_options.h"
#include "../options/preset_file.h"
#include "../options/profiled.h"
#include "../output/outputs.h"
#include "commands.h"
#include "stepcast/config/config.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/interop/discover.h"
#include "stepcast/report/pages.h"
#include "stepcast/report/report.h"
#include "stepcast/text/document.h"
#include "stepcast/trace/forecast.h"
#include "stepcast/trace/profile.h"

namespace stepcast::cli {
namespace {

struct TraceOptions {
  std::vector<std::string> files, calibration;
  std::string device, json, html, stage;
  JobOptions job;
};

// The device whose curves predict the profile's kernels: the one asked for, or the one that the
// trace names; nothing where that one is not known.
std::optional<job::Device> priced_device(const result::TraceProfile& profile,
                                         const std::string& asked) {
  if (!asked.empty()) {
    try {
      return config::device(asked);
    } catch (const InputError& error) {
      throw option_fault("--device", error.faults().front().message);
    }
  }
  for (const result::TraceRank& rank : profile.ranks) {
    const std::string name = rank.device.empty() ? "" : interop::device_of_product(rank.device);
    if (!name.empty()) {
      return config::device(name);
    }
  }
  return std::nullopt;
}

// Puts the forecast of the job beside each rank.
void add_forecast(result::TraceProfile& profile, const TraceOptions& given) {
  const config::Loaded loaded = load(given.job);
  const int last = loaded.job.parallelism.pipeline - 1;
  const int asked = integer_option("--stage", given.stage, 0, -1);
  if (asked > last) {
    throw option_fault("--stage",
                       fmt::format("there is no stage {}; expected one from 0 to {}", asked, last));
  }
  forecast::Forecaster forecaster(text::data_directory());
  forecast::Options options;
  options.trace = true;
  auto outcome = forecaster.forecast(loaded.job, options);
  const result::Report& report = forecast_of(outcome, loaded);
  validate::price_collectives(profile, loaded.job, text::data_directory());
  for (result::TraceRank& rank : profile.ranks) {
    if (std::string why = unlike_job(rank, loaded.job); !why.empty()) {
      rank.remarks.push_back(std::move(why));
    }
    const int stage = asked >= 0 ? asked : profiled_stage(rank, loaded.job);
    const calibrate::WorkVerdict work = work_verdict(rank, loaded.job, report, stage);
    for (const std::string& words : {work.refused, work.note}) {
      if (!words.empty()) {
        rank.remarks.push_back(words);
      }
    }
    rank.forecast = trace::compare(rank, report, stage);
  }
}

int run_trace(const TraceOptions& given) {
  if (given.files.empty()) {
    throw option_fault("trace", "no file given; expected traces of PyTorch's profiler");
  }
  require_calibration(given.calibration);
  Outputs outputs;
  outputs.add("--json", given.json);
  outputs.add("--html", given.html);
  result::TraceProfile profile = trace::profile_files({given.files.begin(), given.files.end()});
  if (const auto device = priced_device(profile, given.device)) {
    validate::price_operators(profile, *device, text::data_directory(), given.calibration);
  } else {
    profile.notes.emplace_back(
        "kernels are not compared with curves: the traces name no device that is known; --device "
        "states one");
  }
  if (!given.job.config.empty()) {
    add_forecast(profile, given);
  } else if (!given.job.overrides.empty() || !given.stage.empty()) {
    require_config(given.job);
  }
  outputs.give("--json", [&] { return report::json(profile); });
  outputs.give("--html", [&] { return report::html(profile); });
  outputs.finish("trace",
                 [&] { return report::terminal(profile, terminal_colour(), terminal_width()); });
  return done;
}

}  // namespace

Run add_trace(Command& app) {
  auto given = std::make_shared<TraceOptions>();
  app.add_option(
         "files", given->files,
         "traces of PyTorch's profiler, one for each rank: JSON, plain or compressed by gzip")
      .type_name("FILE");
  app.add_option("--device", given->device,
                 "the device whose curves predict the kernels, a name in configs/devices; left "
                 "out: the one that the traces name")
      .type_name("NAME");
  app.add_option("--calibration", given->calibration,
                 "a file or folder of simulate calibrate gpu, which takes precedence over the "
                 "committed ones; may come several times")
      .type_name("PATH")
      .one_value();
  add_job_flags(app, given->job, "override a key of the job; several may follow each other");
  settle_files(app, given->files, given->job);
  app.add_option("--stage", given->stage,
                 "with --config: the pipeline stage that is compared; left out: the one of the "
                 "profiled rank, with stages as the outermost groups of ranks")
      .type_name("N");
  add_output(app, "--json", given->json, "write all figures as JSON");
  add_output(app, "--html", given->html,
             "write one page: steps, one step's streams over time, kinds, collectives, kernels");
  app.footer =
      "Examples:\n"
      "  simulate trace rank0.json.gz\n"
      "  simulate trace rank*.json.gz --json -\n"
      "  simulate trace rank0.json.gz --config job.yaml\n"
      "  simulate trace rank0.json --device h100-sxm --calibration my-h100";
  return [given] { return run_trace(*given); };
}

}  // namespace stepcast::cli
