// LAW: NVLink SHARP: switches reduce and multicast. Inside one domain an all-reduce moves the
// buffer once out of each GPU and once in. Several domains are joined by a tree over their NICs
// (NVLSTree), or by a network that also reduces (NVLS with SHARP).
#include <algorithm>

#include "line.h"

namespace stepcast::cost {
namespace {

constexpr double kEfficiency[4] = {0, 0, 0.85, 0.74};  // nvlsEfficiency by architecture

int heads(const Situation& s) {
  constexpr int kArity = 32;  // NCCL_MAX_NVLS_ARITY
  return std::min(s.per_domain, kArity);
}

// Rate of the switches for all heads together, as NCCL's topology search finds it; 0: none.
double heads_rate(const Situation& s) {
  const int n = heads(s);
  if (n < 2) {
    return 0;
  }
  // Each head gets the highest rate of the search that fits, here from one simplified list.
  constexpr double kRates[] = {90, 80, 70, 60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3};
  double rate = 3;
  for (const double r : kRates) {
    if (r * 1e9 * n <= s.intra * 1.001 && (s.arch >= 3 || r <= 60)) {
      rate = r;
      break;
    }
  }
  return rate * 1e9 * n;
}

// Rate of the switches before the algorithm's factor.
double switch_rate(const Situation& s) {
  const int n = heads(s);
  return n < 2 ? 0 : heads_rate(s) * kEfficiency[s.arch] * (n - 1) / n;
}

bool has_nvls(const Situation& s, Collective op, Protocol protocol) {
  const bool known = op == Collective::all_reduce || op == Collective::all_gather ||
                     op == Collective::reduce_scatter;
  return s.nvls && !s.torus && protocol == Protocol::simple && known;
}

}  // namespace

Line nvls_line(const Situation& s, Collective op, Protocol protocol) {
  if (!has_nvls(s, op, protocol) || (s.domains > 1 && (!s.sharp || s.per_domain < 2))) {
    return {};
  }
  const bool reduces = op == Collective::all_reduce;
  const bool old = s.release == Release::v2_18;
  const bool several = s.domains > 1;
  // Gathers and scatters over SHARP need a head for every member, and NCCL after 2.18.
  if (!reduces && (old || (several && s.nics < s.per_domain))) {
    return {};
  }
  double latency = base_latency(Algorithm::nvls, protocol, s.release) +
                   hop_latency(Hop::nvlink, Algorithm::nvls, protocol, s.release);
  if (several) {
    latency += hop_latency(Hop::net, Algorithm::nvls, protocol, s.release) + 2 * s.net_latency;
  }
  if (old) {
    const double rate = several ? std::min(heads_rate(s), s.net()) : heads_rate(s);
    return {Algorithm::nvls, protocol, latency, rate * 5 / 6};
  }
  const double rate = switch_rate(s);
  if (reduces) {
    const double bus = several ? std::min(2 * rate, s.net()) : 2 * rate;
    return {Algorithm::nvls, protocol, latency, bus * s.ranks / (2.0 * (s.ranks - 1))};
  }
  const double bus = rate * (s.per_domain - 1) / s.per_domain;
  return {Algorithm::nvls, protocol, latency, several ? std::min(bus, s.net()) : bus};
}

Traffic nvls_traffic(const Situation& s, Collective op, double bytes) {
  // The switch reads every GPU's copy; of a domain of n members, each writes its n-th of the result
  // back for multicast, which fills the incoming side of every GPU's port.
  const bool reduces = op == Collective::all_reduce;
  Traffic t;
  t.nvlink = reduces ? bytes + bytes / s.per_domain : bytes;
  if (s.domains > 1 && s.nics > 0) {
    // The network's switches receive each domain's sum once and send it the whole sum once.
    t.nic = (reduces ? bytes : bytes * (s.domains - 1.0) / s.domains) / s.nics;
    t.spine = t.nic * s.nics_per_leaf;
  }
  return t;
}

Line nvls_tree_line(const Situation& s, Collective op, Protocol protocol) {
  if (!has_nvls(s, op, protocol) || s.domains < 2 || s.pcie_between || s.per_domain < 2 ||
      op != Collective::all_reduce) {
    return {};
  }
  constexpr double kCap[4][3] = {{0, 0, 0}, {0, 0, 0}, {0, 57.7e9, 45.5e9}, {0, 96e9, 80e9}};
  const double base = base_latency(Algorithm::nvls_tree, protocol, s.release) +
                      hop_latency(Hop::nvlink, Algorithm::nvls_tree, protocol, s.release);
  const double hop =
      hop_latency(Hop::net, Algorithm::nvls_tree, protocol, s.release) + 2 * s.net_latency;
  const double outer = s.net() * (s.domains <= 2 ? 2 : 1);
  if (s.release == Release::v2_18) {
    const double rate = std::min(heads_rate(s), outer);
    return {Algorithm::nvls_tree, protocol, base + 2 * (s.domains - 1) * hop,
            rate * 0.70 * s.domains / (2.0 * (s.domains - 1))};
  }
  const double inner = 2 * switch_rate(s);
  const double cap = s.release == Release::current ? s.per_domain * kCap[s.arch][column(s)] : inner;
  return {Algorithm::nvls_tree, protocol, base + 2 * std::floor(std::log2(s.domains)) * hop,
          std::min({inner, outer, cap}) * s.ranks / (2.0 * (s.ranks - 1))};
}

Traffic nvls_tree_traffic(const Situation& s, Collective, double bytes) {
  Traffic t;
  t.nvlink = bytes + bytes / s.per_domain;
  // Between two domains each sends its sum to the other once (NCCL pairs them); a tree sends up and
  // down.
  const double out = s.domains == 2 ? bytes : 2 * bytes * (s.domains - 1) / s.domains;
  t.nic = out / std::max(1, s.nics);
  t.spine = t.nic * s.nics_per_leaf;
  return t;
}

}  // namespace stepcast::cost
