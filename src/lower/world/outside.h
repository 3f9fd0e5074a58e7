// What a process holds of the GPU's memory outside the framework's allocator, part by part.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "../passes/passes.h"
#include "stepcast/base/quantity.h"
#include "stepcast/cluster/topology.h"
#include "stepcast/cost/buffers.h"
#include "stepcast/cost/collectives.h"
#include "stepcast/hardware/hardware.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::lower {

// A communicator that a rank has made, and what it has run on it.
struct UsedGroup {
  std::string name;
  cluster::GroupShape shape;
  unsigned algorithms = 0;  // a bit for each cost::Algorithm
  bool tokens = false;      // DeepEP's or HybridEP's kernels
};

// What NCCL connects on a communicator to run `algorithm` over so many bytes: a bit for each
// cost::Algorithm. Where switches multicast, NVLS is connected too: eight B200 that gather and
// reduce under FSDP2 hold its buffers beside two communicators' rings (tests/laws/outside.cpp).
unsigned connected_for(const cluster::GroupShape& shape, cost::Algorithm algorithm, Bytes bytes);

using OutsideParts = std::vector<std::pair<std::string, Bytes>>;

// CUDA's context with the kernels that were loaded, NCCL's buffers by communicator, the buffers of
// token dispatchers that have their own. Workspaces of cuBLAS and cuDNN are in the allocator.
OutsideParts outside_parts(const strategy::Plan& plan, const hardware::Device& device,
                           const std::vector<UsedGroup>& groups);

}  // namespace stepcast::lower
