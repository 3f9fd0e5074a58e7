// Channels and rates as NCCL's topology search would find them on these regular clusters
// (search.cc, connect.cc).
#include <algorithm>

#include "line.h"

namespace stepcast::cost {
namespace {

constexpr double kGB = 1e9;
constexpr double kMicro = 1e-6;

// Rates per channel that the search tries, in GB/s, from the highest.
constexpr std::array kIntra80 = {40.0, 30.0, 20.0, 18.0, 15.0, 12.0, 10.0,
                                 9.0,  7.0,  6.0,  5.0,  4.0,  3.0};
constexpr std::array kInter80 = {48.0, 30.0, 28.0, 24.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0,
                                 7.0,  6.0,  5.0,  4.0,  3.0,  2.4,  1.2,  0.24, 0.12};
constexpr std::array kIntra90 = {60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 15.0, 12.0, 11.0, 6.0, 3.0};
constexpr std::array kInter90 = {48.0, 45.0, 42.0, 40.0, 30.0, 24.0, 22.0, 20.0, 17.5,
                                 15.0, 12.0, 6.0,  3.0,  2.4,  1.2,  0.24, 0.12};
constexpr std::array kIntra100 = {90.0, 80.0, 70.0, 60.0, 50.0, 45.0,
                                  40.0, 30.0, 24.0, 20.0, 19.0, 18.0};
constexpr std::array kInter100 = {96.0, 86.0, 80.0, 48.0, 45.1, 42.0, 40.0, 30.0, 24.0, 22.0,
                                  20.0, 17.5, 15.0, 12.0, 6.0,  3.0,  2.4,  1.2,  0.24, 0.12};

double first_within(std::span<const double> rates, double limit) {
  for (const double r : rates) {
    if (r <= limit * 1.0001) {
      return r;
    }
  }
  return rates.back();
}

std::span<const double> intra_rates(int arch) {
  return arch >= 3   ? std::span<const double>(kIntra100)
         : arch == 2 ? std::span<const double>(kIntra90)
                     : std::span<const double>(kIntra80);
}
std::span<const double> inter_rates(int arch) {
  return arch >= 3   ? std::span<const double>(kInter100)
         : arch == 2 ? std::span<const double>(kInter90)
                     : std::span<const double>(kInter80);
}

int arch_of(double capability) {
  return capability >= 10 ? 3 : capability >= 9 ? 2 : capability >= 8 ? 1 : 0;
}

void count_channels(Situation& s) {
  double rate = 0;
  int count = 1;
  if (s.domains == 1 || s.pcie_between) {
    const double total = s.intra / kGB;
    rate = first_within(intra_rates(s.arch), total);
    count = std::max(1, static_cast<int>(total / rate + 1e-9));
  } else {
    const double port = s.port / kGB;
    rate = first_within(inter_rates(s.arch), port);
    count = std::max(1, static_cast<int>(port / rate + 1e-9)) * std::max(1, s.nics);
  }
  constexpr int kMaxRings = 32;  // MAXCHANNELS / 2 for rings
  count = std::min(count, kMaxRings);
  // Channels of 25 GB/s and more are split in two.
  if (rate >= 25 && !(s.arch >= 2 && rate < 50 && count > 4)) {
    count = std::min(2 * count, kMaxRings);
    rate /= 2;
  }
  s.search_channels = count;
  s.channels = std::min(64, 2 * count);
  if (s.arch >= 2 && s.domains > 1 && rate > 45 && s.channels < 16) {
    s.channels *= 2;
  }
  // Up to 2.19 NCCL's tuner scales its bandwidths by the share of channels that the limits leave.
  // Later tuners do not, but the achieved bandwidth still is.
  s.found_channels = s.channels;
  if (s.limits.most > 0) {
    s.channels = std::min(s.channels, s.limits.most);
  }
  s.channels = std::clamp(s.channels, std::min(s.limits.fewest, 64), 64);
  s.channel_share = std::min(1.0, static_cast<double>(s.channels) / s.found_channels);
}

// [link][tree, ring][LL, LL128, Simple], microseconds.
constexpr double kHop[3][2][3] = {{{0.6, 1.25, 4.0}, {0.6, 1.9, 3.4}},
                                  {{1.0, 1.9, 4.0}, {1.0, 2.5, 5.7}},
                                  {{5.0, 8.5, 14.0}, {2.7, 4.0, 14.0}}};
constexpr double kBase[2][3] = {{6.8, 14.0, 8.4}, {6.6, 14.0, 8.4}};

// The other algorithms run Simple only: [link], microseconds.
struct SimpleHops {
  Algorithm algorithm;
  double current[3];
  double v2_18[3];
};
constexpr SimpleHops kSimpleHops[] = {
    {Algorithm::collnet_direct, {3.7, 3.7, 31}, {8.0, 8.0, 10.7}},
    {Algorithm::collnet_chain, {2.8, 2.8, 30}, {4.75, 8.0, 14}},
    {Algorithm::nvls, {25, 0, 18}, {0, 0, 18}},
    {Algorithm::nvls_tree, {25, 0, 20.9}, {0, 0, 19}},
    {Algorithm::pat, {4.0, 4.0, 14}, {4.0, 4.0, 14}},
};

}  // namespace

double nvlink_share(double capability, Release release) {
  if (release != Release::current) {
    // sm100 came with 2.25; sm90 had 20.0 before 2.20.
    return release == Release::v2_23 && capability >= 9 ? 20.6 / 25 : 20.0 / 25;
  }
  return capability >= 10 ? 40.1 / 50 : capability >= 9 ? 20.6 / 25 : 20.0 / 25;
}

double link_share(hardware::Vendor vendor, double capability, Release release) {
  return vendor == hardware::Vendor::amd ? kXgmiShare : nvlink_share(capability, release);
}

double hop_latency(Hop hop, Algorithm algorithm, Protocol protocol, Release release) {
  const int link = static_cast<int>(hop);
  for (const SimpleHops& h : kSimpleHops) {
    if (h.algorithm == algorithm) {
      if (algorithm == Algorithm::nvls_tree && hop == Hop::net && release == Release::v2_23) {
        return 14 * kMicro;
      }
      return (release == Release::v2_18 ? h.v2_18[link] : h.current[link]) * kMicro;
    }
  }
  const bool tree = algorithm == Algorithm::tree;
  if (tree && hop == Hop::pcie && protocol == Protocol::simple && release == Release::v2_18) {
    return 6 * kMicro;
  }
  return kHop[link][tree ? 0 : 1][static_cast<int>(protocol)] * kMicro;
}

double base_latency(Algorithm algorithm, Protocol protocol, Release release) {
  const bool old = release == Release::v2_18;
  switch (algorithm) {
    case Algorithm::nvls:
    case Algorithm::nvls_tree:
      return old ? 23 * kMicro : 0;
    case Algorithm::collnet_direct:
    case Algorithm::collnet_chain:
      return 0;
    case Algorithm::pat:
      return 8 * kMicro;
    case Algorithm::tree:
      return old && protocol == Protocol::simple ? 0
                                                 : kBase[0][static_cast<int>(protocol)] * kMicro;
    default:
      return kBase[1][static_cast<int>(protocol)] * kMicro;
  }
}

double ll_cap(const Situation& s) {
  constexpr double kCaps[4][3] = {
      {39.0, 39.0, 20.4}, {87.7, 22.5, 19.0}, {141.0, 45.0, 35.0}, {282.0, 90.0, 70.0}};
  int row = s.domains == 1 ? s.arch : s.amd_cpu ? 1 : 0;
  if (s.release == Release::v2_18) {
    row = std::min(row, 1);  // Hopper has Ampere's row
  }
  return kCaps[row][column(s)] * kGB;
}

double Situation::bus() const {
  if (domains == 1) {
    return intra;
  }
  return per_domain > 1 ? std::min(intra, net()) : net();
}

Situation situate(const cluster::GroupShape& g, Release release, ChannelLimits limits) {
  Situation s;
  s.release = release;
  s.limits = limits;
  s.ranks = g.ranks;
  s.domains = std::max(1, g.domains);
  s.per_domain = std::max(1, g.ranks_per_domain);
  s.nics = g.nics_per_domain;
  s.nics_per_leaf = g.nics_per_leaf;
  s.domains_per_leaf = std::max(1, g.domains_per_leaf);
  s.arch = arch_of(g.compute_capability);
  if (release != Release::current) {
    s.arch = std::min(s.arch, 2);
  }
  s.nvlink = g.has_nvlink;
  s.nvls = g.nvls;
  s.rccl = g.vendor == hardware::Vendor::amd;
  s.all_linked = g.all_linked;
  s.amd_cpu = g.amd_cpu;
  s.pcie_between = g.nodes <= 1 && g.domains > 1;
  s.sharp = g.sharp && s.domains > 1 && !s.pcie_between;
  s.pxn = g.pxn;
  s.torus = g.torus;
  s.torus_dimensions = g.torus_dimensions;
  s.link = g.nvlink.count();
  s.port = s.nics > 0 ? g.nic_per_domain.count() / s.nics : 0;
  s.intra = s.link * (s.torus        ? 1.0
                      : g.has_nvlink ? link_share(g.vendor, g.compute_capability, release)
                                     : kPcieShare);
  const double reached = s.pcie_between ? kPcieShare : 1;
  s.net_wire = g.nic_per_domain.count() * reached;
  s.hash = g.hash;
  s.pairs_wire = s.net_wire;
  s.pairs_hash = g.hash;
  if (g.pairs_nic_per_domain.count() > 0) {
    s.pairs_wire = g.pairs_nic_per_domain.count() * reached;
    s.pairs_hash = g.pairs_hash;
  }
  // The constants include a usual InfiniBand network: adapter and first switch twice, 1.5 us.
  constexpr double kUsual = 1.5e-6;
  s.net_latency =
      s.domains > 1 && !s.pcie_between ? std::max(0.0, to_seconds(g.network_latency) - kUsual) : 0;
  count_channels(s);
  return s;
}

double Situation::net() const { return net_wire * hash.share().mean / net_parts; }

double Situation::pairs_net() const { return pairs_wire * pairs_hash.share().mean / pairs_parts; }

Situation inside(const Situation& whole) {
  Situation s = whole;
  s.ranks = whole.per_domain;
  s.domains = 1;
  s.nics = s.nics_per_leaf = 0;
  s.net_wire = s.pairs_wire = s.port = s.net_latency = 0;
  s.hash = s.pairs_hash = {};
  s.sharp = s.pcie_between = false;
  count_channels(s);
  return s;
}

Situation across(const Situation& whole) {
  Situation s = whole;
  s.ranks = whole.domains;
  s.per_domain = 1;
  s.nics = std::max(1, whole.nics / whole.per_domain);
  s.net_parts = whole.net_parts * whole.per_domain;
  s.pairs_parts = whole.pairs_parts * whole.per_domain;
  s.port = whole.port * whole.nics / (s.nics * whole.per_domain);
  s.sharp = s.torus = false;
  count_channels(s);
  return s;
}

int launch_channels(const Situation& s, const Line& line, double bytes) {
  if (line.algorithm == Algorithm::torus) {
    return 0;  // the chips' own engines move the data
  }
  if (line.algorithm == Algorithm::nvls || line.algorithm == Algorithm::nvls_tree) {
    const int found = s.arch >= 3 ? (s.domains > 1 ? 32 : 24) : 16;
    return s.limits.most > 0 ? std::min(found, s.limits.most) : found;
  }
  const bool ring = line.algorithm == Algorithm::ring;
  const bool collnet =
      line.algorithm == Algorithm::collnet_direct || line.algorithm == Algorithm::collnet_chain;
  double per_thread = collnet ? 512 : 64;  // bytes, Simple
  double threads =
      collnet || line.algorithm == Algorithm::tree || line.algorithm == Algorithm::pat ? 640 : 512;
  if (line.protocol == Protocol::ll) {
    per_thread = ring ? 8.0 * s.ranks : 8.0;
  } else if (line.protocol == Protocol::ll128) {
    per_thread = 8;
    threads = 640;
  }
  const double fit = bytes / (threads * per_thread);
  return static_cast<int>(std::clamp(fit, 1.0, static_cast<double>(s.channels)));
}

}  // namespace stepcast::cost
