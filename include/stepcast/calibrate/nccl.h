// Calibration from nccl-tests logs: which of them a fit may believe, the fit, and the file.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "stepcast/cost/nccl_fit.h"
#include "stepcast/interop/nccl_log.h"
#include "stepcast/job/job.h"
#include "stepcast/result/calibration.h"

namespace stepcast::calibrate {

struct NcclOptions {
  std::string system;                    // name of the calibration
  std::optional<cost::NcclScope> scope;  // nullopt: a file for each that the logs have
  std::vector<int> ranks_per_node;       // of runs that do not state theirs
  std::string op;                        // of runs that do not name their collective
  bool keep_degraded = false;
};

// `cluster` is the machine that the logs come from; health is judged by what `calibration_dir`
// expects of it. Throws InputError: a placement that is not stated or does not fit the cluster.
result::Calibration calibrate_nccl(const job::Cluster& cluster, const std::vector<interop::CollectiveLog>& logs,
                                   const NcclOptions& options, const std::filesystem::path& calibration_dir);

}  // namespace stepcast::calibrate
