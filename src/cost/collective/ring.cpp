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

namespace {

// Rate of all channels together. In each ring one of a domain's r members sends to the next domain,
// so a GPU's port inside the domain carries (r-1)/r of the rings.
double ring_bus(const Situation& s) {
  if (s.domains == 1) {
    return s.intra;
  }
  return s.per_domain > 1 ? std::min(s.intra * s.per_domain / (s.per_domain - 1.0), s.net())
                          : s.net();
}

bool has_ring(Collective op) {
  return op != Collective::all_to_all && op != Collective::gather && op != Collective::scatter;
}

}  // namespace

Line ring_line(const Situation& s, Collective op, Protocol protocol) {
  if (!has_ring(op) || s.torus) {
    return {};
  }
  constexpr double kLl128[] = {20e9, 20e9, 36.7e9, 40e9};  // perChMaxRingLL128Bws, bytes/s
  const bool old = s.release == Release::v2_18;
  const bool chain = op == Collective::broadcast || op == Collective::reduce;
  double bus = ring_bus(s);
  if (protocol == Protocol::ll) {
    const bool slow = s.domains > 1 || op == Collective::all_reduce || op == Collective::reduce;
    bus = std::min(ll_cap(s), bus * (!old ? 1.0 / 2 : slow ? 1.0 / 4 : 1.0 / 3));
  } else if (protocol == Protocol::ll128) {
    if (!s.nvlink && s.per_domain > 1) {
      return {};
    }
    bus =
        std::min(bus * (old && s.per_domain < 2 ? 0.7 : 0.92), s.search_channels * kLl128[s.arch]);
  }
  if (chain) {
    return chain_line(s, bus, protocol);
  }
  const int steps = ring_steps(s, op);
  const bool simple = protocol == Protocol::simple;
  const double intra = hop_latency(intra_hop(s), Algorithm::ring, protocol);
  double inter_steps = (op == Collective::all_reduce ? 2 : 1) * (s.domains - 1);
  if (old && s.domains > 1 && op == Collective::all_reduce) {
    inter_steps = std::min(2 * s.domains, steps);
  }
  double overhead = 0;  // NIC proxy per hop beside the network, several domains only
  if (s.domains > 1 && !s.pcie_between) {
    overhead = (s.amd_cpu ? 2e-6 : 1e-6) * (simple ? 3 : 1);
  }
  const double inter =
      hop_latency(inter_hop(s), s.per_domain == 1 ? Algorithm::tree : Algorithm::ring, protocol) +
      s.net_latency * (simple ? 2 : 1);
  const double latency = base_latency(Algorithm::ring, protocol) +
                         (steps - inter_steps) * std::max(intra, overhead) + inter_steps * inter;
  return {Algorithm::ring, protocol, latency, bus * s.ranks / steps};
}

Traffic ring_traffic(const Situation& s, Collective op, double bytes) {
  const bool chain = op == Collective::broadcast || op == Collective::reduce;
  const double passed = chain ? bytes : bytes * ring_steps(s, op) / s.ranks;
  Traffic t;
  // In each ring one of a domain's r members sends to the next domain.
  t.nvlink = passed * (s.domains == 1 ? 1.0 : (s.per_domain - 1.0) / s.per_domain);
  if (s.domains > 1 && s.nics > 0) {
    t.nic = passed / s.nics;
    t.spine = t.nic * s.nics_per_leaf;
  }
  return t;
}

}  // namespace stepcast::cost
