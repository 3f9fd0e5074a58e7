// simulate calibrate trace: a profile of a job to a site calibration.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "../command_line/command_line.h"
#include "../options/job_options.h"
#include "../options/profiled.h"
#include "commands.h"
#include "site_output.h"
#include "stepcast/calibrate/trace.h"
#include "stepcast/text/document.h"

namespace stepcast::cli {
namespace {

struct CalibrateTraceOptions {
  std::vector<std::string> files;
  JobOptions job;
  SiteOutput site;
};

int run_calibrate_trace(const CalibrateTraceOptions& given) {
  if (given.files.empty()) {
    throw option_fault("calibrate trace", "no file given; expected traces of PyTorch's profiler");
  }
  require_config(given.job);
  const config::Loaded loaded = load(given.job);
  calibrate::TraceSiteOptions options;
  options.name = given.site.name.empty()
                     ? std::filesystem::path(given.files.front()).stem().stem().string()
                     : given.site.name;
  const std::string target = site_file(given.site, options.name);
  options.progress = site_progress("forecasts");
  const result::TraceProfile profile =
      trace::profile_files({given.files.begin(), given.files.end()});
  for (const result::TraceRank& rank : profile.ranks) {
    options.stages.push_back(profiled_stage(rank, loaded.job));
    if (const std::string why = unlike_job(rank, loaded.job); !why.empty()) {
      throw InputError(Fault{{rank.file, 0, 0}, why + "; expected a profile of this job"});
    }
  }
  const result::SiteCalibration found =
      calibrate::calibrate_trace(profile, loaded.job, options, text::data_directory());
  return write_site("calibrate trace", given.site, target, found);
}

}  // namespace

Run add_calibrate_trace(Command& app) {
  auto given = std::make_shared<CalibrateTraceOptions>();
  app.add_option("files", given->files,
                 "traces of PyTorch's profiler of the job, one for each rank: JSON, plain or "
                 "compressed by gzip")
      .type_name("FILE");
  add_job_flags(app, given->job, "override a key of the job; several may follow each other");
  settle_files(app, given->files, given->job);
  add_site_output(app, given->site);
  app.footer =
      "Sums of kernels, collectives and steps of the profile against the job's forecast give the\n"
      "site's clock, host, overlap and fabric. Traces of several ranks tell waiting from "
      "transfer.\n"
      "Examples:\n"
      "  simulate calibrate trace rank*.json.gz --config job.yaml --output site.yaml\n"
      "  simulate --config job.yaml --set calibration=[auto,site.yaml] --set cluster.nodes=64\n"
      "Exit status: 0 done; 1 the profile determines no parameter, and nothing is written; 2 bad "
      "input.";
  return [given] { return run_calibrate_trace(*given); };
}

}  // namespace stepcast::cli
