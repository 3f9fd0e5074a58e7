// NCCL's tuning model, with one file for each algorithm: time = latency + bytes / bandwidth for
// every (algorithm, protocol).
//
// SOURCE: src/graph/tuning.cc, topo.h, search.cc and connect.cc of NCCL 2.30.7; constants are
// NCCL's own, in its units (microseconds, GB/s), converted here, with those of 2.18.3 and 2.23.4
// where they differ (Release). VALID: what NCCL would pick. Achieved times come from the fits
// (fit.h) on top of these lines.
#pragma once

#include <array>
#include <cmath>
#include <span>

#include "stepcast/cluster/topology.h"
#include "stepcast/cost/collectives.h"

namespace stepcast::cost {

// Versions whose constants differ: up to 2.19, up to 2.23, and later ones.
enum class Release { v2_18, v2_23, current };

// NCCL_MIN_CTAS and NCCL_MAX_CTAS; 0: not set.
struct ChannelLimits {
  int fewest = 0;
  int most = 0;
};

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
  bool rccl = false;        // AMD's library in place of NCCL
  bool all_linked = false;  // one domain in which every pair has links of its own
  bool switched = true;     // NVSwitch joins the domain, not a mesh of links
  bool amd_cpu = false;
  bool pcie_between = false;  // the domains lie in one node
  bool sharp = false;         // the network's switches reduce, and CollNet is on
  bool pxn = true;            // a GPU reaches other rails through its neighbours' NICs
  bool torus = false;
  int torus_dimensions = 0;
  Release release = Release::current;
  double intra = 0;  // rate that NCCL assumes inside a domain, per GPU
  double net_wire =
      0;  // rate out of one domain, all its ports; after faults, before hash collisions
  double net_parts = 1;  // groups that share it
  cluster::RouteHash hash;
  double net() const;     // what is left of it
  double pairs_wire = 0;  // the same three for all-to-all
  double pairs_parts = 1;
  cluster::RouteHash pairs_hash;
  double pairs_net() const;
  double link = 0;           // line rate of a GPU's port inside its domain
  double port = 0;           // line rate of one NIC port
  double net_latency = 0;    // beyond the latency that the constants include
  double bus() const;        // rate of one ring through all members, all channels together
  int search_channels = 1;   // channels that the topology search finds
  int channels = 1;          // channels of the communicator
  int found_channels = 1;    // the same without limits
  double channel_share = 1;  // share of the bandwidth where fewer channels are allowed than found
  ChannelLimits limits;
};
Situation situate(const cluster::GroupShape& group, Release release = Release::current,
                  ChannelLimits limits = {});
// The groups of a two-level algorithm: `inside`, the members of one domain; `across`, one rank of
// each domain, which share the NICs with the groups of their neighbours.
Situation inside(const Situation& s);
Situation across(const Situation& s);

// Rates that NCCL assumes, as a share of the data sheet's: per link 20.0 of 25 GB/s (NVLink 2,
// 3), 20.6 of 25 (4), 40.1 of 50 (5); PCIe slots 24 of 31.5 GB/s (all generations alike).
double nvlink_share(double compute_capability, Release release = Release::current);
// Infinity Fabric: RCCL assumes 48 of the 64 GB/s of a link (src/graph/topo.h, GFX94X_XGMI_WIDTH,
// from memory). Two MI300X reach 47.7 (ml-engineering, network README).
inline constexpr double kXgmiShare = 48.0 / 64;
// The same by the vendor of the device.
double link_share(hardware::Vendor vendor, double compute_capability,
                  Release release = Release::current);
inline constexpr double kPcieShare = 24.0 / 31.5;

// Column of the tables of caps: one domain, two, more.
inline int column(const Situation& s) { return s.domains == 1 ? 0 : s.domains == 2 ? 1 : 2; }

enum class Hop { nvlink, pcie, net };
// hwLatencies of tuning.cc, seconds. Only for algorithms that have a figure there.
double hop_latency(Hop hop, Algorithm algorithm, Protocol protocol,
                   Release release = Release::current);
double base_latency(Algorithm algorithm, Protocol protocol, Release release = Release::current);
inline Hop intra_hop(const Situation& s) { return s.nvlink ? Hop::nvlink : Hop::pcie; }
inline Hop inter_hop(const Situation& s) { return s.pcie_between ? Hop::pcie : Hop::net; }
double ll_cap(const Situation& s);  // llMaxBws

struct Line {
  Algorithm algorithm = Algorithm::ring;
  Protocol protocol = Protocol::simple;
  double latency = 0;    // seconds
  double bandwidth = 0;  // bytes of the operation per second; 0: not offered
  // A pipeline fills hop by hop: this takes the time of its first `fill_bytes`, `fill_hops` times.
  double fill_hops = 0;
  double fill_bytes = 0;
  double floor = 0;  // seconds per byte below which a port would exceed its line rate
  double axis = 0;   // bytes at which x is 0 (predict.h); 0: those of the offer
};

// Bytes that cross one member's NVLink port, one NIC and one leaf's uplinks. Rings and trees visit
// domains in such an order that one domain below each leaf communicates across the spine.
struct Traffic {
  double nvlink = 0;
  double nic = 0;
  double spine = 0;
};

// One entry per algorithm: `line` gives bandwidth 0 where the algorithm does not exist.
struct Entry {
  Algorithm algorithm;
  const char* nccl_name;  // as NCCL_ALGO, lower case; empty: cannot be forced
  Line (*line)(const Situation&, Collective, Protocol);
  Traffic (*traffic)(const Situation&, Collective, double bytes);
  bool (*offered)(const Situation&) =
      nullptr;  // whether NCCL offers it if no job names it; null: always
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
// Broadcast and reduce: the ring, cut open.
Line chain_line(const Situation&, double bus, Protocol);
Line collnet_direct_line(const Situation&, Collective, Protocol);
Line collnet_chain_line(const Situation&, Collective, Protocol);
Traffic collnet_traffic(const Situation&, Collective, double bytes);
Line pat_line(const Situation&, Collective, Protocol);
Traffic pat_traffic(const Situation&, Collective, double bytes);
bool pat_offered(const Situation&);
Line hierarchical_line(const Situation&, Collective, Protocol);
Traffic hierarchical_traffic(const Situation&, Collective, double bytes);
Line torus_line(const Situation&, Collective, Protocol);
Traffic torus_traffic(const Situation&, Collective, double bytes);
Line all_pairs_line(const Situation&, Collective, Protocol);
Traffic all_pairs_traffic(const Situation&, Collective, double bytes);
// A send to one peer over a path; `share` of a link's rate that the library assumes.
Line direct_line(const cluster::Path& path, double share);
// Channels, each a thread block, that move one message.
int direct_channels(const cluster::Path& path, const PeerGroup& of, double bytes);

// The tree's share of its bandwidth by size (treeCorrectionFactor): in NCCL's steps, for its
// choice, and interpolated, for times.
double tree_correction(Protocol protocol, double bytes);
double tree_correction_smooth(Protocol protocol, double bytes);
// SMs: channels that a launch of this size uses (enqueue.cc).
int launch_channels(const Situation& s, const Line& line, double bytes);

std::span<const Entry> algorithms();

// Base and steps of grouped sends and receives, for which NCCL has no model: nccl-tests of 2 to 512
// GPUs (calibration/nccl: DGX A100, 16 GPUs 58 us; Polaris, 32 GPUs 130-170 us; one NVLink domain
// of 8, 7 to 12 us). Seconds.
inline constexpr double kSendBase = 6.6e-6;  // as NCCL's low-latency base
inline constexpr double kSendNear = 0.3e-6;  // per peer over NVLink
inline constexpr double kSendPcie = 0.6e-6;
inline constexpr double kSendFar = 4e-6;  // per peer through a NIC: one proxy serves them in turn

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
