// A site calibration from a user's own measured steps: a few global parameters are fitted while the physics stays fixed. The
// method is described in the README of src/calibrate.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "stepcast/result/site_calibration.h"

namespace stepcast::calibrate {

struct SiteOptions {
  std::string name = "site";
  std::string device;                       // use only rows of this device; empty: all rows must have the same
  std::string system;                       // use only rows of this training system; empty: all rows must have the same
  std::vector<result::MeasuredStep> check;  // rows that the fit does not use: forecast without and with the site
  std::function<void(int evaluation)> progress;
};

// Throws InputError where rows are of several devices or training systems. Fewer than two usable rows, and rows that
// determine no parameter, are refused: `refused` then says why, and `yaml` is empty.
result::SiteCalibration calibrate_runs(std::vector<result::MeasuredStep> steps, const SiteOptions& options,
                                       const std::filesystem::path& data_directory);

}  // namespace stepcast::calibrate
