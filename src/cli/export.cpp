// simulate export: a job as a job file, or as what a training system is launched with.
#include "export.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <optional>

#include "command_line.h"
#include "commands.h"
#include "job_options.h"
#include "outputs.h"
#include "stepcast/config/job_file.h"
#include "stepcast/interop/launch_file.h"

namespace stepcast::cli {
namespace {

constexpr const char* kJob = "job";  // Stepcast's own file

struct ExportOptions {
  JobOptions job;
  std::string to;
  std::string output = "-";
};

int run_export(const ExportOptions& given) {
  require_config(given.job);
  if (given.to.empty()) {
    throw option_fault("--to",
                       fmt::format("missing; expected {}", fmt::join(export_formats(), " | ")));
  }
  Outputs outputs;
  outputs.add("--output", given.output);
  const Exported exported = export_job(load(given.job), given.to);
  outputs.give("--output", [&] { return exported.text; });
  outputs.finish("export", [] { return std::string(); });
  write_stderr(exported.note(given.output == "-" ? "FILE" : given.output));
  return done;
}

}  // namespace

std::vector<std::string> export_formats() {
  std::vector<std::string> names = interop::launch_targets();
  names.insert(names.begin(), kJob);
  return names;
}

Exported export_job(const config::Loaded& loaded, const std::string& format) {
  if (format == kJob) {
    return {config::job_file(loaded), "simulate --config FILE"};
  }
  interop::LaunchFile file = interop::launch_file(loaded, format);
  return {std::move(file.text), std::move(file.read_back)};
}

std::string Exported::note(const std::string& file) const {
  std::string command = read_back;
  const std::string_view placeholder = "FILE";
  command.replace(command.find(placeholder), placeholder.size(), file);
  return fmt::format("gives the same job: {}\n", command);
}

Run add_export(Command& app) {
  auto given = std::make_shared<ExportOptions>();
  add_job_options(app, given->job);
  app.add_option("--to", given->to, fmt::format("{}", fmt::join(export_formats(), " | ")))
      .type_name("FORMAT");
  add_output(app, "--output", given->output, "write the result to this file").show_default();
  app.footer =
      "The result is first read back: a key of the job that the format cannot express is a\n"
      "fault that names it. The command that reads the file goes to standard error.\n"
      "Examples:\n"
      "  simulate export --config llama70b --to megatron --output train.sh\n"
      "  simulate export --config llama8b-fsdp --set system=torchtitan --to torchtitan\n"
      "  simulate search --config llama70b --export megatron=train.sh\n"
      "Exit status: 0 done; 2 bad input, or a job that the format cannot express.";
  return [given] { return run_export(*given); };
}

}  // namespace stepcast::cli
