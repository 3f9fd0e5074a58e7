// A collective expanded into its exchange steps. Every message between two peers is a flow of its own over the resources
// of its path, whereas a lowered job has one task with a price. This answers questions that a price does not (one slow link
// in one ring, rings that share a NIC) and allows comparison with simulators that work this way.
#pragma once

#include <span>
#include <vector>

#include "stepcast/base/quantity.h"
#include "stepcast/cluster/topology.h"
#include "stepcast/cost/collectives.h"
#include "stepcast/program/program.h"

namespace stepcast::lower {

enum class StepPattern {
  ring,               // all_reduce, all_gather, reduce_scatter; broadcast as a chain
  double_tree,        // all_reduce over NCCL's two binary trees, half of the bytes each
  hierarchical,       // all_reduce: ring within each NVLink domain, rings across domains, ring within
  hierarchical_tree,  // the same with double binary trees across domains
  pairwise,           // all_to_all: in step s every member sends to the member that is s places ahead
};

struct ExpandedCollective {
  std::vector<int> slots;  // members in ring order, each once
  cost::Collective op = cost::Collective::all_reduce;
  StepPattern pattern = StepPattern::ring;
  Bytes bytes;     // as NCCL counts them (cost/collectives.h); each member's share is rounded up to whole bytes
  int chunks = 1;  // trees and chains: pieces that follow each other
  Time start{0};   // from the beginning of the step
};

// The world of all slots that take part, with one rank per slot in the order of slot numbers. A step runs all collectives
// once, each on streams of its own; `Timeline::first_step` is the time from a common start. An exchange step has the
// latency of its path; kernels and protocols have none. Ranks that do the same share one program. Cost: linear in ranks
// plus the steps of distinct programs. Throws std::invalid_argument for slots that do not exist or repeat, and for patterns
// that do not fit the operation or the placement.
program::World expand(const cluster::Topology& topology, std::span<const ExpandedCollective> collectives);
program::World expand(const cluster::Topology& topology, const ExpandedCollective& collective);

}  // namespace stepcast::lower
