// Bus bandwidth as nccl-tests counts it.
#pragma once

#include <cstdint>
#include <string>

#include "stepcast/result/collective.h"

namespace stepcast::report {

int ranks_of(const result::CollectiveTable& table);
// Whether the size column counts the bytes of all ranks together, of which each rank holds its
// share.
bool sharded(const std::string& op);
// Bytes per second on the busiest link: nccl-tests' doc/PERFORMANCE.md.
double bus_bandwidth(const result::CollectiveTable& table, std::int64_t bytes, double seconds);

}  // namespace stepcast::report
