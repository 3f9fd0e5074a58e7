// What offloading costs by closed forms: times that no step of the lowered program goes below.
#pragma once

#include "stepcast/lower/lower.h"

namespace stepcast::lower {

// As host_prices.cpp prices movements, without latencies: of the best-linked GPU of a cluster.
struct OffloadTimes {
  // All 0 where the plan offloads nothing.
  OffloadTimes(const strategy::Plan& plan, const Prices& prices);

  // Picoseconds a byte. LAW  Both ways share a GPU's link, and all GPUs of a node its memory.
  double round_trip = 0;         // out and back over a GPU's own link
  double round_trip_shared = 0;  // through the node's memory, where it travels alone
  // Picoseconds an element of a rank's shard: AdamW on the CPUs, as host_step.cpp runs it.
  double step = 0;         // with a rank's share of the cores
  double step_shared = 0;  // with all the node's, where nobody else steps

  // Of saved activations, with so many of the node's ranks doing alike: from the first byte's way
  // out to the last one's way back.
  Time out_and_back(double bytes, int ranks) const;
  // Of the optimizer's step behind the last gradient.
  Time host_step(double elements, int ranks) const;
};

}  // namespace stepcast::lower
