// Profiled kernels compared with the calibration's curves.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "stepcast/job/job.h"
#include "stepcast/result/trace.h"

namespace stepcast::validate {

// Predicts the operators of all ranks whose product or attention is known, at the clock of long runs. `own`: calibration
// files and folders of the user, which come before the committed ones.
void price_operators(result::TraceProfile& profile, const job::Device& device, const std::filesystem::path& data_directory,
                     const std::vector<std::string>& own = {});

}  // namespace stepcast::validate
