// Calibration from nccl-tests logs: which runs are healthy enough for a fit, the fit, and the calibration file.
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
  std::optional<cost::NcclScope> scope;  // nullopt: one file for each scope in the logs
  std::vector<int> ranks_per_node;       // for runs that do not state theirs
  std::string op;                        // for runs that do not name their collective
  bool keep_degraded = false;
};

// `cluster` is the machine that the logs come from. A run is healthy if it is about as fast as the calibration in
// `calibration_dir` expects. Throws InputError where a run's placement is not stated or does not fit the cluster.
result::Calibration calibrate_nccl(const job::Cluster& cluster, const std::vector<interop::CollectiveLog>& logs,
                                   const NcclOptions& options, const std::filesystem::path& calibration_dir);

}  // namespace stepcast::calibrate
