// LAW: latency = base + (steps - inter) * max(intra hop, net overhead) + inter * net hop; bandwidth
// = bus * ranks / steps; all-reduce takes 2(n-1) steps, all-gather and reduce-scatter n-1. Each
// rank passes steps/n of the buffer on.
#include <algorithm>

#include "line.h"

namespace stepcast::cost {

Time ring_all_reduce_time(int ranks, Bytes bytes, Bandwidth bus, Time alpha) {
  if (ranks <= 1) {
    return Time(0);
  }
  const int steps = 2 * (ranks - 1);
  return seconds(static_cast<double>(bytes.count()) * steps / (ranks * bus.count())) +
         alpha * steps;
}

Line ring_line(const Situation& s, Collective op, Protocol protocol) {
  if (op == Collective::all_to_all) {
    return {};
  }
  constexpr double kLl128[] = {20e9, 20e9, 36.7e9, 40e9};  // perChMaxRingLL128Bws, bytes/s
  double bus = s.bus();
  if (protocol == Protocol::ll) {
    bus = std::min(ll_cap(s), bus * 0.5);
  } else if (protocol == Protocol::ll128) {
    if (!s.nvlink && s.per_domain > 1) {
      return {};
    }
    bus = std::min(bus * 0.92, s.search_channels * kLl128[s.arch]);
  }
  const int steps = ring_steps(s, op);
  const double intra = hop_latency(intra_hop(s), Algorithm::ring, protocol);
  double latency = base_latency(Algorithm::ring, protocol);
  if (op == Collective::broadcast) {
    latency +=
        steps * hop_latency(s.domains > 1 ? inter_hop(s) : intra_hop(s), Algorithm::ring, protocol);
    return {Algorithm::ring, protocol, latency, bus};
  }
  const int inter_steps = (op == Collective::all_reduce ? 2 : 1) * (s.domains - 1);
  const bool simple = protocol == Protocol::simple;
  double overhead = 0;  // NIC proxy per hop beside the network, several domains only
  if (s.domains > 1 && !s.pcie_between) {
    overhead = (s.amd_cpu ? 2e-6 : 1e-6) * (simple ? 3 : 1);
  }
  const double inter =
      hop_latency(inter_hop(s), s.per_domain == 1 ? Algorithm::tree : Algorithm::ring, protocol) +
      s.net_latency * (simple ? 2 : 1);
  latency += (steps - inter_steps) * std::max(intra, overhead) + inter_steps * inter;
  return {Algorithm::ring, protocol, latency, bus * s.ranks / steps};
}

Traffic ring_traffic(const Situation& s, Collective op, double bytes) {
  const double passed = op == Collective::broadcast ? bytes : bytes * ring_steps(s, op) / s.ranks;
  Traffic t;
  // Of a domain's r members one hands over to the next domain, in each of the rings.
  t.nvlink = passed * (s.domains == 1 ? 1.0 : (s.per_domain - 1.0) / s.per_domain);
  if (s.domains > 1 && s.nics > 0) {
    t.nic = passed / s.nics;
    t.spine = t.nic * s.nics_per_leaf;
  }
  return t;
}

}  // namespace stepcast::cost
