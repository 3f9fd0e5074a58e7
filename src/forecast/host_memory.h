// Host memory and NVMe space: what the ranks of a node take of it together.
#pragma once

#include <cstdint>
#include <vector>

#include "stepcast/cluster/topology.h"
#include "stepcast/program/timeline.h"
#include "stepcast/result/report.h"

namespace stepcast::forecast {

// Fills the report's host and NVMe figures, of the node that uses most, and clears `fits` where one
// is beyond its capacity. `class_of`: by rank, into the timeline's; empty: each rank is its own.
// Peaks of ranks are added up, as if they fell together.
void fill_host(const job::Node& node, const cluster::Topology& topology,
               const std::vector<std::uint32_t>& class_of, const program::Timeline& timeline,
               result::Report& report);

}  // namespace stepcast::forecast
