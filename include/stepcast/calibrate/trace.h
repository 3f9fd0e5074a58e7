// A site calibration from a profile of one job. The method is described in the README of src/calibrate.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "stepcast/job/job.h"
#include "stepcast/result/site_calibration.h"
#include "stepcast/result/trace.h"

namespace stepcast::calibrate {

struct TraceSiteOptions {
  std::string name = "site";
  std::vector<int> stages;  // of each rank of the profile
  std::function<void(int evaluation)> progress;
};

// Whether a profiled GPU can be one of the job's: false only where both names hold a model ("A100") and the models differ.
bool may_be_of(const result::TraceRank& rank, const job::Job& job);

// Rows are sums over a step: products without and with communication beside them, collectives, the step. A profile that
// determines no parameter is refused: `refused` then says why, and `yaml` is empty. Throws InputError where the
// profile's products are other work than the job's.
result::SiteCalibration calibrate_trace(const result::TraceProfile& profile, const job::Job& job,
                                        const TraceSiteOptions& options, const std::filesystem::path& data_directory);

}  // namespace stepcast::calibrate
