// The cluster of a job as options of the command that reads its launch file back.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "stepcast/config/config.h"
#include "stepcast/interop/launch.h"

namespace stepcast::interop::launch {

struct NamedCluster {
  std::string name;                    // a name in configs/clusters, or a path
  std::vector<std::string> overrides;  // KEY=VALUE of what differs from it
};

// The named cluster that is nearest to the job's, and the keys below cluster, nccl, calibration and
// seed that differ. nullopt where no cluster of that name or path gives the job: it stands in the
// job's own file. `request` reads the launch file; `wanted` is the job that it has to give.
std::optional<NamedCluster> named_cluster(const config::Loaded& loaded, const job::Job& wanted,
                                          const LaunchRequest& request);

}  // namespace stepcast::interop::launch
