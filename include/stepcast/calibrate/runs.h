// A site calibration from a user's own measured steps: a few global parameters are fitted while the physics stays fixed. The
// method is described in the README of src/calibrate.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "stepcast/interop/published_rows.h"
#include "stepcast/result/site_calibration.h"

namespace stepcast::calibrate {

// A line of a file of runs: a job with its measured step, or a row in the format of published measurements.
using RunRow = std::variant<result::MeasuredStep, interop::PublishedRow>;

// Reads lines such as {"config": "job.yaml", "step_time": 8.5}. `config` is a job file in the folder of the file of runs, or
// a name in configs/; `step_time` is in seconds, or a list of repeats; `tokens_per_second_per_gpu` may take its place.
// Optional: id, date, source, notes, set (as --set). Every other line is read as a published row. Throws InputError with
// every faulty line.
std::vector<RunRow> read_runs(const std::filesystem::path& file);

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
