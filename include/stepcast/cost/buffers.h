// Device memory that NCCL's communicators hold.
#pragma once

#include "stepcast/base/quantity.h"
#include "stepcast/cluster/topology.h"
#include "stepcast/cost/collectives.h"
#include "stepcast/job/job.h"

namespace stepcast::cost {

inline constexpr unsigned bit(Algorithm a) { return 1U << static_cast<unsigned>(a); }

// Memory that a communicator of this group holds on one rank after it has run the algorithms of `used` (a bit for each;
// `direct` means sends and receives). LAW and SOURCE are in src/cost/collective/buffers.cpp.
Bytes nccl_buffers(const job::Nccl& settings, const cluster::GroupShape& group, unsigned used);

}  // namespace stepcast::cost
