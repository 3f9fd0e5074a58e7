// Collectives as nccl-tests prints them, so that what reads its logs (`simulate calibrate nccl`,
// `simulate collective --compare`) reads ours; and the sizes it counts.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "stepcast/interop/gpu_measurements.h"

namespace stepcast::harness {

// nccl-tests' name of an element type: float, half, bfloat16...; "": it has none.
std::string nccl_type(job::DType dtype);
int nccl_type_bytes(job::DType dtype);  // 0: it has none

// Elements that one rank of a collective sends and receives, and nccl-tests' count column: of
// all_gather, reduce_scatter, alltoall (whose size is the whole buffer) a rank's share.
struct CollectiveCounts {
  std::int64_t count = 0, send = 0, receive = 0;
};
// nullopt: no such collective or type here, or the bytes are no whole elements a rank.
std::optional<CollectiveCounts> counts_of(const interop::CollectiveCase& what);
// The size column is of all shares together.
bool in_shares(const std::string& op);
// The largest size of at most `bytes` that nccl-tests would run: shares of whole 16 bytes.
std::int64_t whole_size(const std::string& op, std::int64_t bytes, int ranks);

// Bytes on the busiest link over bytes of the size column (nccl-tests: doc/PERFORMANCE.md).
double bus_factor(const std::string& op, int ranks);

// Tables of the measured collectives among `measurements`, one for each op, type, placement,
// algorithm and protocol, sizes rising. Skipped cases are left out; nothing is printed where none
// is left. `session` gives GPU and NCCL version.
void write_nccl_tables(std::ostream& out, const interop::GpuSession& session,
                       const std::vector<interop::GpuMeasurement>& measurements);

}  // namespace stepcast::harness
