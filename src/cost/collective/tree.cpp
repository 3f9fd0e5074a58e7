// LAW: two binary trees over domains, chains inside; latency = base + 2((r-1) intra + floor(log2
// domains) net); bandwidth half the bus, capped per channel and corrected by size.
#include <algorithm>

#include "line.h"

namespace stepcast::cost {
namespace {

// treeCorrectionFactor, indexed by log2(bytes / 64); the last one also holds for larger sizes.
constexpr double kCorrection[3][24] = {
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
     .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9}};

}  // namespace

double tree_correction(Protocol protocol, double bytes) {
  const double log = std::floor(std::log2(std::max(bytes, 64.0) / 64));
  return log < 24 ? kCorrection[static_cast<int>(protocol)][static_cast<int>(log)] : 1.0;
}

double tree_correction_smooth(Protocol protocol, double bytes) {
  const double log = std::clamp(std::log2(std::max(bytes, 64.0) / 64), 0.0, 23.0);
  const int low = std::min(22, static_cast<int>(log));
  const double* row = kCorrection[static_cast<int>(protocol)];
  return row[low] + (log - low) * (row[low + 1] - row[low]);
}

Line tree_line(const Situation& s, Collective op, Protocol protocol) {
  if (op != Collective::all_reduce || s.torus) {
    return {};
  }
  constexpr double kTree[4][3] = {
      {26.5e9, 18.5e9, 10e9}, {24e9, 23.6e9, 17.8e9}, {38.7e9, 41.4e9, 36e9}, {70e9, 42.8e9, 24e9}};
  constexpr double kLl128[4][3] = {
      {20e9, 20e9, 20e9}, {20e9, 20e9, 20e9}, {36.7e9, 36.7e9, 29e9}, {55.6e9, 31.67e9, 20e9}};
  const int c = column(s);
  double whole = s.bus();
  if (s.domains == 2 && s.nics < s.per_domain && !s.pcie_between) {
    // Two domains send each other the buffer once, which is half of what rings send. NCCL accounts
    // for that where there are fewer NICs than GPUs: for two nodes it takes the rate inside the
    // node.
    whole = std::min(s.intra, 2 * s.net());
  }
  double bus = std::min(whole * 0.92, s.search_channels * kTree[s.arch][c]);
  if (protocol == Protocol::ll) {
    bus = std::min(bus / 3.8, ll_cap(s));
  } else if (protocol == Protocol::ll128) {
    if (!s.nvlink && s.per_domain > 1) {
      return {};
    }
    bus = std::min(bus * (s.domains == 1 ? 7.0 / 9 : 120.0 / 128),
                   s.search_channels * kLl128[s.arch][c]);
  }
  const double inter = hop_latency(inter_hop(s), Algorithm::tree, protocol, s.release) +
                       s.net_latency * (protocol == Protocol::simple ? 2 : 1);
  const double latency =
      base_latency(Algorithm::tree, protocol, s.release) +
      2 * ((s.per_domain - 1) * hop_latency(intra_hop(s), Algorithm::tree, protocol, s.release) +
           std::floor(std::log2(s.domains)) * inter);
  return {Algorithm::tree, protocol, latency, bus * 0.5};
}

Traffic tree_traffic(const Situation& s, Collective, double bytes) {
  // In each of the two trees, which carry half of the data each, a domain is an inner node (one
  // parent, two children) or a leaf (one parent, no child).
  Traffic t;
  t.nvlink = s.per_domain > 1 ? 2 * bytes : 0;
  if (s.domains > 1 && s.nics > 0) {
    t.nic = 2 * bytes * (s.domains - 1) / s.domains / s.nics;
    t.spine = t.nic * s.nics_per_leaf;
  }
  return t;
}

}  // namespace stepcast::cost
