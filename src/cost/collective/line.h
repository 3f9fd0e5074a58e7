// NCCL's tuning model, one algorithm a file: time = latency + bytes / bandwidth for every
// (algorithm, protocol).
//
// SOURCE: src/graph/tuning.cc, topo.h, search.cc and connect.cc of NCCL 2.30.7; constants are
// NCCL's own, in its units (microseconds, GB/s), converted here. Rules of older versions differ
// little in time: earlier base latencies, no NVLink SHARP before 2.17; choose an algorithm with
// `nccl.algo` where that matters. VALID: what NCCL would pick. Achieved times come from the fits
// (fit.h) on top of these lines.
#pragma once

#include <array>
#include <cmath>
#include <span>

#include "stepcast/cluster/topology.h"
#include "stepcast/cost/collectives.h"

namespace stepcast::cost {

// A group as NCCL's tuner sees it, in seconds and bytes per second.
struct Situation {
  int ranks = 1;
  int domains = 1;        // NCCL's "nodes": sets of GPUs joined by NVLink or PCIe
  int per_domain = 1;     // ranks of the largest domain
  int nics_per_leaf = 0;  // NIC ports of one domain on one leaf
  int domains_per_leaf = 1;
  int nics = 0;  // NIC ports of one domain
  int arch = 1;  // 0 Volta and before, 1 Ampere (and Ada), 2 Hopper, 3 Blackwell
  bool nvlink = true;
  bool nvls = false;
  bool amd_cpu = false;
  bool pcie_between = false;  // the domains lie in one node
  double intra = 0;           // rate that NCCL counts on inside a domain, per GPU
  double net = 0;             // rate out of one domain, all its ports; line rate after faults
  double net_latency = 0;     // beyond what the constants hold
  double bus() const;         // rate of one ring through all members, all channels together
  int search_channels = 1;    // channels that the topology search finds
  int channels = 1;           // channels of the communicator
  double channel_rate() const { return bus() / search_channels; }
};
Situation situate(const cluster::GroupShape& group);

// Rates NCCL counts on, as a share of the data sheet's: per link 20.0 of 25 GB/s (NVLink 2,
// 3), 20.6 of 25 (4), 40.1 of 50 (5); PCIe slots 24 of 31.5 GB/s (all generations alike).
double nvlink_share(double compute_capability);
inline constexpr double kPcieShare = 24.0 / 31.5;

// The caps' column: one domain, two, more.
inline int column(const Situation& s) { return s.domains == 1 ? 0 : s.domains == 2 ? 1 : 2; }

enum class Hop { nvlink, pcie, net };
// hwLatencies of tuning.cc, seconds. Algorithms without a figure of their own are not asked for.
double hop_latency(Hop hop, Algorithm algorithm, Protocol protocol);
double base_latency(Algorithm algorithm, Protocol protocol);
inline Hop intra_hop(const Situation& s) { return s.nvlink ? Hop::nvlink : Hop::pcie; }
inline Hop inter_hop(const Situation& s) { return s.pcie_between ? Hop::pcie : Hop::net; }
double ll_cap(const Situation& s);  // llMaxBws

struct Line {
  Algorithm algorithm = Algorithm::ring;
  Protocol protocol = Protocol::simple;
  double latency = 0;    // seconds
  double bandwidth = 0;  // bytes of the operation per second; 0: not offered
};

// Bytes that cross one member's NVLink port, one NIC and one leaf's uplinks. Rings and trees are
// laid so that one domain below a leaf talks across the spine.
struct Traffic {
  double nvlink = 0;
  double nic = 0;
  double spine = 0;
};

// One entry per algorithm: `line` gives bandwidth 0 where NCCL does not offer it.
struct Entry {
  Algorithm algorithm;
  const char* nccl_name;  // as NCCL_ALGO, lower case; empty: cannot be forced
  Line (*line)(const Situation&, Collective, Protocol);
  Traffic (*traffic)(const Situation&, Collective, double bytes);
};

Line ring_line(const Situation&, Collective, Protocol);
Traffic ring_traffic(const Situation&, Collective, double bytes);
Line tree_line(const Situation&, Collective, Protocol);
Traffic tree_traffic(const Situation&, Collective, double bytes);
Line nvls_line(const Situation&, Collective, Protocol);
Traffic nvls_traffic(const Situation&, Collective, double bytes);
Line nvls_tree_line(const Situation&, Collective, Protocol);
Traffic nvls_tree_traffic(const Situation&, Collective, double bytes);
Line pairwise_line(const Situation&, Collective, Protocol);
Traffic pairwise_traffic(const Situation&, Collective, double bytes);
// A send to one peer over a path.
Line direct_line(const cluster::Path& path, double compute_capability);
int direct_channels(const cluster::Path& path, double bytes);

// The tree's share of its bandwidth by size (treeCorrectionFactor): as NCCL steps it, and joined up
// for times.
double tree_correction(Protocol protocol, double bytes);
double tree_correction_smooth(Protocol protocol, double bytes);
// SMs: channels that a launch of this size uses (enqueue.cc).
int launch_channels(const Situation& s, const Line& line, double bytes);

std::span<const Entry> algorithms();

// Steps of NCCL's rings.
inline int ring_steps(const Situation& s, Collective op) {
  switch (op) {
    case Collective::all_reduce:
      return 2 * (s.ranks - 1);
    case Collective::all_gather:
    case Collective::reduce_scatter:
      return s.ranks - 1;
    default:
      return s.ranks;
  }
}

}  // namespace stepcast::cost
