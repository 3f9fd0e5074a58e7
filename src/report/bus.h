// Bus bandwidth as nccl-tests counts it.
#pragma once

#include <cstdint>
#include <string>

#include "stepcast/result/collective.h"

namespace stepcast::report {

int ranks_of(const result::CollectiveTable& table);
// The size column is the whole of what all ranks hold together, a rank's part is its share.
bool sharded(const std::string& op);
// Bytes per second on the busiest link: nccl-tests' doc/PERFORMANCE.md.
double bus_bandwidth(const result::CollectiveTable& table, std::int64_t bytes, double seconds);

}  // namespace stepcast::report
