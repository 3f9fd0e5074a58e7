#include "site_output.h"

#include <fmt/format.h>
#include <unistd.h>

#include "../command_line/command_line.h"
#include "../command_line/terminal.h"
#include "../output/outputs.h"
#include "commands.h"
#include "stepcast/report/report.h"

namespace stepcast::cli {

void add_site_output(Command& app, SiteOutput& given) {
  app.add_option("--output", given.output,
                 "file for the site calibration (by default NAME-site.yaml; - is standard output, "
                 "without the report)")
      .type_name("FILE");
  add_output(app, "--json", given.json, "write the report as JSON");
  app.add_option("--name", given.name, "name of the site (by default that of the first file)")
      .type_name("SITE");
}

std::string site_file(const SiteOutput& given, const std::string& name) {
  const std::string file = given.output.empty() ? name + "-site.yaml" : given.output;
  if (file == "-" && given.json == "-") {
    throw option_fault("--json", "standard output is the calibration's; expected a file");
  }
  return file;
}

std::function<void(int)> site_progress(const char* what) {
  if (::isatty(STDERR_FILENO) != 1) {
    return {};
  }
  return [what](int evaluation) { write_stderr(fmt::format("\r{}: {} ", what, evaluation)); };
}

int write_site(const char* command, const SiteOutput& given, const std::string& file,
               const result::SiteCalibration& found) {
  Outputs outputs;
  const bool written = file != "-" && !found.yaml.empty();
  if (written || file == "-") {
    outputs.add("--output", file, found.yaml);
  }
  outputs.add("--json", given.json, report::json(found));
  outputs.finish(command, [&] {
    return report::terminal(found, terminal_colour()) +
           (written ? fmt::format("\n{0} is written; use it with calibration: [auto, {0}]\n", file)
                    : "");
  });
  if (!found.refused.empty()) {
    write_stderr(fmt::format("{}: {}; no file is written\n", command, found.refused));
    return cannot_run;
  }
  return done;
}

}  // namespace stepcast::cli
