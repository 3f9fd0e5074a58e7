// LAW: PAT, parallel aggregated trees (all-gather, reduce-scatter): a logarithmic number of steps,
// which aggregate small messages; latency = base + floor(log2 domains) net / 3.5 + 2.8 us a rank;
// bandwidth 3/4 of the bus. NCCL after 2.23 offers it by itself with one GPU per node only.
#include <algorithm>

#include "line.h"

namespace stepcast::cost {

bool pat_offered(const Situation& s) { return s.per_domain == 1; }

Line pat_line(const Situation& s, Collective op, Protocol protocol) {
  const bool halves = op == Collective::all_gather || op == Collective::reduce_scatter;
  if (!halves || protocol != Protocol::simple || s.domains < 2 || s.pcie_between || s.torus ||
      s.release != Release::current) {
    return {};
  }
  // With one rank per node NCCL uses the tree's hop for the network.
  const Algorithm hop = s.per_domain == 1 ? Algorithm::tree : Algorithm::pat;
  const double inter = hop_latency(Hop::net, hop, protocol) + 2 * s.net_latency;
  const double latency = base_latency(Algorithm::pat, protocol) +
                         std::floor(std::log2(s.domains)) * inter / 3.5 + s.ranks * 2.8e-6;
  return {Algorithm::pat, protocol, latency, s.bus() * 0.75};
}

Traffic pat_traffic(const Situation& s, Collective, double bytes) {
  // A domain receives the parts of the others once, and its members pass them on.
  Traffic t;
  t.nvlink = bytes * (s.per_domain - 1) / s.per_domain;
  if (s.nics > 0) {
    t.nic = bytes * (s.domains - 1) / s.domains / s.nics;
    t.spine = t.nic * s.nics_per_leaf;
  }
  return t;
}

}  // namespace stepcast::cost
