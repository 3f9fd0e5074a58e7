// Closed forms for offloading. They are lower bounds: no step of the lowered program takes less.
#pragma once

#include "stepcast/lower/lower.h"

namespace stepcast::lower {

// Movements as the lowered program prices them, without latencies, for the GPU of a cluster that has the best link.
struct OffloadTimes {
  // All 0 where the plan offloads nothing.
  OffloadTimes(const strategy::Plan& plan, const Prices& prices);

  // Picoseconds per byte. LAW  Both directions share a GPU's link, and all GPUs of a node share its memory.
  double round_trip = 0;         // out and back over a GPU's own link
  double round_trip_shared = 0;  // through the node's memory, for one rank that travels alone
  // Picoseconds per element of a rank's shard, for AdamW on the CPUs.
  double step = 0;         // with the rank's share of the node's cores
  double step_shared = 0;  // with all cores of the node, when no other rank steps

  // Time from the first byte of saved activations that leaves to the last one that comes back, when `ranks` ranks of the
  // node do the same.
  Time out_and_back(double bytes, int ranks) const;
  // Time of the optimizer's step behind the last gradient, when `ranks` ranks of the node step.
  Time host_step(double elements, int ranks) const;
};

}  // namespace stepcast::lower
