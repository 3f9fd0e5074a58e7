// LAW: NVLink SHARP: switches reduce and multicast. Inside one domain an all-reduce moves the
// buffer once out of each GPU and once in; several domains join by a tree over their NICs
// (NVLSTree).
#include <algorithm>

#include "line.h"

namespace stepcast::cost {
namespace {

constexpr double kEfficiency[4] = {0, 0, 0.85, 0.74};  // nvlsEfficiency by architecture

// Rate of the switches for all heads together, before the algorithm's factor.
double switch_rate(const Situation& s) {
  constexpr int kArity = 32;  // NCCL_MAX_NVLS_ARITY
  const int heads = std::min(s.per_domain, kArity);
  if (heads < 2) {
    return 0;
  }
  // Per head the highest rate of the search's list that fits; a plain list is enough here.
  constexpr double kRates[] = {90, 80, 70, 60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3};
  double rate = 3;
  for (const double r : kRates) {
    if (r * 1e9 * heads <= s.intra * 1.001 && (s.arch >= 3 || r <= 60)) {
      rate = r;
      break;
    }
  }
  return rate * 1e9 * heads * kEfficiency[s.arch] * (heads - 1) / heads;
}

}  // namespace

Line nvls_line(const Situation& s, Collective op, Protocol protocol) {
  if (!s.nvls || s.domains != 1 || protocol != Protocol::simple || op == Collective::all_to_all ||
      op == Collective::broadcast) {
    return {};
  }
  const double rate = switch_rate(s);
  const double latency = hop_latency(Hop::nvlink, Algorithm::nvls, protocol);
  if (op == Collective::all_reduce) {
    return {Algorithm::nvls, protocol, latency, 2 * rate * s.ranks / (2.0 * (s.ranks - 1))};
  }
  return {Algorithm::nvls, protocol, latency, rate * (s.per_domain - 1) / s.per_domain};
}

Traffic nvls_traffic(const Situation& s, Collective op, double bytes) {
  // The switch pulls every GPU's copy; the owner of each n-th writes the result back for multicast.
  const double part = bytes / s.ranks;
  return {op == Collective::all_reduce   ? bytes + part
          : op == Collective::all_gather ? part
                                         : bytes,
          0, 0};
}

Line nvls_tree_line(const Situation& s, Collective op, Protocol protocol) {
  if (!s.nvls || s.domains < 2 || s.pcie_between || s.per_domain < 2 ||
      protocol != Protocol::simple || op != Collective::all_reduce) {
    return {};
  }
  constexpr double kCap[4][3] = {{0, 0, 0}, {0, 0, 0}, {0, 57.7e9, 45.5e9}, {0, 96e9, 80e9}};
  const double inner = 2 * switch_rate(s);
  const double outer = s.net * (s.domains <= 2 ? 2 : 1);
  const double cap = s.per_domain * kCap[s.arch][column(s)];
  const double latency =
      hop_latency(Hop::nvlink, Algorithm::nvls_tree, protocol) +
      2 * std::floor(std::log2(s.domains)) *
          (hop_latency(Hop::net, Algorithm::nvls_tree, protocol) + 2 * s.net_latency);
  return {Algorithm::nvls_tree, protocol, latency,
          std::min({inner, outer, cap}) * s.ranks / (2.0 * (s.ranks - 1))};
}

Traffic nvls_tree_traffic(const Situation& s, Collective op, double bytes) {
  Traffic t = nvls_traffic(s, op, bytes);
  t.nvlink = bytes + bytes / s.per_domain;
  // Between two domains each sends its sum to the other once (NCCL pairs them); a tree sends up and
  // down.
  const double out = s.domains == 2 ? bytes : 2 * bytes * (s.domains - 1) / s.domains;
  t.nic = out / std::max(1, s.nics);
  t.spine = t.nic * s.nics_per_leaf;
  return t;
}

}  // namespace stepcast::cost
