// LAW: CollNet: the network's switches reduce (SHARP), so a domain sends the buffer once and
// receives the sum once. Direct: members exchange shares with the heads (one per NIC) over NVLink,
// and heads with the network; chain: data goes along the members up to the head, and back the same
// way. latency = base + 2(min(1, r-1) intra + 0.4 us (r-1)) + net (direct), base + 2(r-1) intra +
// net (chain); bandwidth is half the bus; direct is slower where members outnumber channels.
#include <algorithm>

#include "line.h"

namespace stepcast::cost {
namespace {

bool simple_over_sharp(const Situation& s, Protocol protocol) {
  return s.sharp && !s.torus && protocol == Protocol::simple;
}

double net_hop(const Situation& s, Algorithm algorithm, Protocol protocol) {
  return hop_latency(Hop::net, algorithm, protocol, s.release) + 2 * s.net_latency;
}

}  // namespace

Line collnet_direct_line(const Situation& s, Collective op, Protocol protocol) {
  constexpr int kMaxDirectPeers = 8;  // NCCL_MAX_DIRECT_ARITY + 1
  if (!simple_over_sharp(s, protocol) || !s.nvlink || !s.switched ||
      s.per_domain > kMaxDirectPeers) {
    return {};
  }
  constexpr Algorithm kDirect = Algorithm::collnet_direct;
  const int more = s.per_domain - 1;
  const bool old = s.release == Release::v2_18;
  const double latency =
      base_latency(kDirect, protocol, s.release) +
      2 * (std::min(1, more) * hop_latency(Hop::nvlink, kDirect, protocol, s.release) +
           more * (old ? 0.5e-6 : 0.4e-6)) +
      net_hop(s, kDirect, protocol);
  if (op == Collective::all_reduce) {
    double factor = static_cast<double>(s.per_domain) / s.search_channels;
    factor -= (factor - 1) / 2;
    const double bus = s.bus() / factor * (s.arch >= 2 ? 0.85 : 1.0);
    return {kDirect, protocol, latency, std::min(bus, s.net()) * 0.5};
  }
  const bool halves = op == Collective::all_gather || op == Collective::reduce_scatter;
  if (!halves || old || s.per_domain < 2 || s.nics < s.per_domain) {
    return {};  // gathers and scatters need a head for every member
  }
  return {kDirect, protocol, latency, std::min(s.intra, 0.9 * s.net())};
}

Line collnet_chain_line(const Situation& s, Collective op, Protocol protocol) {
  if (!simple_over_sharp(s, protocol) || op != Collective::all_reduce) {
    return {};
  }
  constexpr Algorithm kChain = Algorithm::collnet_chain;
  const double latency =
      base_latency(kChain, protocol, s.release) +
      2 * (s.per_domain - 1) * hop_latency(intra_hop(s), kChain, protocol, s.release) +
      net_hop(s, kChain, protocol);
  return {kChain, protocol, latency, s.bus() * 0.5};
}

Traffic collnet_traffic(const Situation& s, Collective op, double bytes) {
  Traffic t;
  const bool both = op == Collective::all_reduce;  // data goes up to the heads and down again
  t.nvlink = (both ? 2 : 1) * bytes * (s.per_domain - 1) / s.per_domain;
  if (s.nics > 0) {
    t.nic = (both ? bytes : bytes * (s.domains - 1.0) / s.domains) / s.nics;
    t.spine = t.nic * s.nics_per_leaf;
  }
  return t;
}

}  // namespace stepcast::cost
