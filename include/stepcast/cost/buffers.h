// Device memory that NCCL's communicators hold.
#pragma once

#include "stepcast/base/quantity.h"
#include "stepcast/cluster/topology.h"
#include "stepcast/cost/collectives.h"
#include "stepcast/job/job.h"

namespace stepcast::cost {

inline constexpr unsigned bit(Algorithm a) { return 1U << static_cast<unsigned>(a); }

// Of one rank, once its communicator of this group has run these algorithms (a bit for each;
// direct: sends and receives). LAW and SOURCE stand in src/cost/collective/buffers.cpp.
Bytes nccl_buffers(const job::Nccl& settings, const cluster::GroupShape& group, unsigned used);

}  // namespace stepcast::cost
