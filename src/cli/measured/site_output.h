// What the commands that write a site calibration have in common: `simulate calibrate runs` and
// `calibrate trace`.
#pragma once

#include <functional>
#include <string>

#include "../command_line/arguments.h"
#include "stepcast/result/site_calibration.h"

namespace stepcast::cli {

struct SiteOutput {
  std::string output, json, name;
};

// Adds --output, --json and --name.
void add_site_output(Command& app, SiteOutput& given);

// The file for the calibration of a site of this name; "-" is standard output, which --json may not
// want as well.
std::string site_file(const SiteOutput& given, const std::string& name);

// Says on a terminal which forecast of a fit runs; elsewhere nothing.
std::function<void(int)> site_progress(const char* what);

// Writes calibration, JSON and report; the command's exit status.
int write_site(const char* command, const SiteOutput& given, const std::string& file,
               const result::SiteCalibration& found);

}  // namespace stepcast::cli
