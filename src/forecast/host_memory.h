// Host memory and NVMe space that the ranks of a node use together.
#pragma once

#include <cstdint>
#include <vector>

#include "stepcast/cluster/topology.h"
#include "stepcast/program/timeline.h"
#include "stepcast/result/report.h"

namespace stepcast::forecast {

// Fills the report's host and NVMe figures with those of the node that uses most, and clears `fits`
// where one exceeds its capacity. `class_of`: the rank of the timeline that stands for each rank;
// empty: each rank itself. Peaks of ranks are added up as if they were at the same time.
void fill_host(const job::Node& node, const cluster::Topology& topology,
               const std::vector<std::uint32_t>& class_of, const program::Timeline& timeline,
               result::Report& report);

}  // namespace stepcast::forecast
