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

// Predicts the collectives of all ranks whose bytes are recorded, by NCCL's curves for the job's cluster; consecutive ranks
// share a node.
void price_collectives(result::TraceProfile& profile, const job::Job& job, const std::filesystem::path& data_directory);

}  // namespace stepcast::validate
