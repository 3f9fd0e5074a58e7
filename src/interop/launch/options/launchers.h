// Programs that start processes. Their options state the number of nodes and nothing else that a
// forecast needs.
#pragma once

#include <string_view>
#include <vector>

#include "rule.h"

namespace stepcast::interop::launch {

void cluster_nodes(Draft& draft, const Setting& setting, std::string_view key);
// Rules for launchers of any system: torchrun, mpirun, srun, deepspeed, nsys, ...
const std::vector<Rule>& launcher_rules();
const std::vector<Unread>& launcher_options();
// The number of processes, which with the cluster gives the nodes where --nodes does not.
void stated_processes(Draft& draft, const Setting& setting, std::string_view key);

}  // namespace stepcast::interop::launch
