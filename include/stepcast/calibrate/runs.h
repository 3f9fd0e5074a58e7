// A site calibration from a user's own measured steps: a few global parameters with the physics
// fixed. The method stands in the README of src/calibrate.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "stepcast/interop/published_rows.h"
#include "stepcast/result/site_calibration.h"

namespace stepcast::calibrate {

// A line of a rows file: a job with its measured step, or a row in the format of published
// measurements.
using RunRow = std::variant<result::MeasuredStep, interop::PublishedRow>;

// {"config": "job.yaml", "step_time": 8.5}: `config` is a job file beside the rows or a name in
// configs/; `step_time` in seconds, or a list of repeats; or `tokens_per_second_per_gpu`. Optional:
// id, date, source, notes, set (as --set). Everything else is a published row. Throws InputError
// with every faulty line.
std::vector<RunRow> read_runs(const std::filesystem::path& file);

struct SiteOptions {
  std::string name = "site";
  std::string device;                       // use only rows of this device; empty: all must have one
  std::string system;                       // likewise
  std::vector<result::MeasuredStep> check;  // rows that the fit does not see: forecast before and after
  std::function<void(int evaluation)> progress;
};

// Throws InputError where rows are of several devices or training systems. Fewer than two usable
// rows, and rows that determine nothing, are refused: `refused` says why and `yaml` is empty.
result::SiteCalibration calibrate_runs(std::vector<result::MeasuredStep> steps, const SiteOptions& options,
                                       const std::filesystem::path& data_directory);

}  // namespace stepcast::calibrate
