// The cluster as a graph of devices, links and switches (Boost.Graph inside, plain vectors outside), the placement of
// ranks, and what a group of ranks looks like to a collective.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/base/quantity.h"
#include "stepcast/job/job.h"

namespace stepcast::cluster {

// Latency from chip to chip in a torus: about 1 us ("How to Scale Your Model", jax-ml scaling book, 2025, part 3: the
// intrinsic latency of a TPU's link).
inline constexpr double kTorusHop = 1e-6;  // seconds

// A chip is the GPU of a torus; unlike a GPU it forwards traffic of others.
enum class VertexKind { gpu, chip, nvswitch, pcie_switch, nic, leaf, spine, core };

struct Vertex {
  VertexKind kind = VertexKind::gpu;
  std::string name;  // "node3/gpu1", "node3/nic2", "leaf0", "spine1"
  int node = -1;
};

struct Link {
  int from = 0;  // vertices; links are directed
  int to = 0;
  Bandwidth capacity;  // after faults and the fabric's measured efficiency
  Time latency{0};
};

// A capacity that flows share. Collectives count their bytes for each kind separately. Core and global links are of the kind
// `spine`; PCIe switches' uplinks and links between sockets are of the kind `nvlink`.
enum class ResourceKind { nvlink = 0, nic_out = 1, nic_in = 2, spine = 3 };

struct Resource {
  ResourceKind kind = ResourceKind::nvlink;
  Bandwidth capacity;
};

enum class PathClass { self, nvlink, pcie, network };

struct Path {
  PathClass kind = PathClass::self;
  Bandwidth bandwidth;  // narrowest link
  Time latency{0};
  int hops = 0;
  std::vector<int> resources;  // indices into Topology::resources()
};

// Share of the network rate that is left after ECMP's hash collisions, of draws from the seed. 1 under adaptive routing, or
// where no traffic crosses spines.
struct HashShare {
  double mean = 1;
  double low = 1;   // 5th percentile
  double high = 1;  // 95th percentile
  bool operator==(const HashShare&) const = default;
};

// The share that a group's routes leave. Flows of a large group are very many: they are drawn when the share is first asked
// for, since many groups are only counted, and most never run an all-to-all. Copies share the draws.
class RouteHash {
 public:
  RouteHash() = default;  // a share of 1
  explicit RouteHash(HashShare share);
  struct Draws;  // of the implementation
  explicit RouteHash(std::shared_ptr<const Draws> draws) : draws_(std::move(draws)) {}
  HashShare share() const;
  bool operator==(const RouteHash& other) const;  // of the shares

 private:
  std::shared_ptr<const Draws> draws_;
};

// Rates of a group, as in GroupShape.
struct GroupRates {
  Bandwidth nvlink;
  Bandwidth nic_per_domain;
  Bandwidth pairs_nic_per_domain;
  RouteHash hash;
  RouteHash pairs_hash;
  bool operator==(const GroupRates&) const = default;
};

// A group of ranks as collectives see it. "Domain" is a set of GPUs joined by NVLink (or by PCIe inside a node).
struct GroupShape {
  int ranks = 0;
  int domains = 0;
  int nodes = 0;
  int ranks_per_domain = 0;  // the largest
  bool even = true;          // every domain holds the same number of ranks
  Bandwidth nvlink;          // per GPU and direction, slowest member; PCIe when there is no NVLink
  bool has_nvlink = true;
  bool nvls = false;
  Bandwidth nic_per_rank;    // network bandwidth for each member rank, slowest member: NICs of a domain shared
                             // by the members in it, after faults and oversubscription where it crosses spines
  Bandwidth nic_per_domain;  // all NICs that the members of one domain can use, each at the rate of the slowest of
                             // them; slowest domain
  int nics_per_domain = 0;   // NIC ports that the members of one domain can use, fewest of all domains; 0: one domain
  int nics_per_leaf = 0;     // ports of one domain that are attached to one leaf: one on rails, all in a tree
  int domains_per_leaf = 0;  // the group's domains below the fullest pod
  bool crosses_spine = false;
  bool crosses_core = false;         // leaves its pod of a three-level tree, or its group of a dragonfly+
  bool pairs_cross_spine = false;    // all-to-all crosses spines: without PXN, traffic between rails does
  bool crosses_pcie_switch = false;  // members of one domain meet above a PCIe switch
  bool crosses_socket = false;       // members of one domain meet over the link between sockets
  bool sharp = false;                // the switches reduce (SHARP, CollNet)
  bool pxn = true;                   // a GPU may send through another GPU's NIC, over NVLink
  bool torus = false;                // members are chips of a torus: `nvlink` is the sum of their rings' rates
  int torus_dimensions = 0;          // dimensions above 1 that the group spans with wrap-around rings
  Bandwidth pairs_nic_per_domain;    // as nic_per_domain, for all-to-all, where each rank sends its own bytes
  Time network_latency{0};
  double compute_capability = 0;                      // the smallest
  hardware::Vendor vendor = hardware::Vendor::other;  // of the first member
  bool all_linked = false;                            // one domain in which each member has links of its own to each other
  bool amd_cpu = false;
  std::optional<GroupRates> named;  // at the rates that the names of the cluster's parts mean, where they differ
  RouteHash hash;                   // of rings and trees; these two last, so that a comparison seldom draws
  RouteHash pairs_hash;             // of all-to-all
  bool operator==(const GroupShape&) const = default;
};

class Topology {
 public:
  // Cost: linear in vertices and links. Faults naming what does not exist are Infeasible{"cluster.faults", ...}.
  // The seed draws the hash collisions of ECMP.
  static std::variant<Topology, Infeasible> build(const job::Cluster& cluster, std::uint64_t seed = 1);

  const std::vector<Vertex>& vertices() const;
  const std::vector<Link>& links() const;
  const std::vector<Resource>& resources() const;
  // "node1/gpu1/nvlink". Cost: as resources(), in every call: names are for people, and no forecast reads one.
  std::string resource_name(int resource) const;

  int devices() const;  // GPUs; slot = node * gpus_per_node + local
  const job::Device& device(int slot) const;
  int node_of(int slot) const;
  int domain_of(int slot) const;

  int nvlink_port(int slot) const;  // resource, or -1
  int nic_out(int slot) const;      // resource of the NIC this GPU uses, or -1
  int nic_in(int slot) const;
  // The next four: a resource, or -1 where it cannot be the bottleneck.
  int spine(int slot) const;        // uplinks of its leaf
  int core(int slot) const;         // core (dragonfly+: global) links of its pod
  int pcie_uplink(int slot) const;  // of the PCIe switch above it
  int socket_link(int slot) const;  // from its socket to the others

  Path path(int from_slot, int to_slot) const;
  GroupShape shape(std::span<const int> slots) const;

  // Whether both are copies of what was built once.
  bool same_as(const Topology& other) const { return state_ == other.state_; }

 private:
  struct State;
  GroupShape shape_here(std::span<const int> slots) const;  // without `named`
  std::shared_ptr<const State> state_;
};

// The process grid: it maps ranks to coordinates under an order such as "tp-cp-ep-dp-pp", whose leftmost axis varies
// fastest. Rank r runs on slot r.
struct Grid {
  int tensor = 1;
  int context = 1;
  int data = 1;
  int pipeline = 1;
  int expert = 1;  // divides data * context: experts live inside the data-parallel ranks
  std::string order = "tp-cp-ep-dp-pp";

  int ranks() const { return tensor * context * data * pipeline; }
  bool operator==(const Grid&) const = default;
};

struct Coordinates {
  int tensor = 0;
  int context = 0;
  int data = 0;
  int pipeline = 0;
};

Coordinates coordinates(const Grid& grid, int rank);
int rank_at(const Grid& grid, const Coordinates& at);
// Whether every rank has the same coordinates in both: axes of one rank have no place in an order.
bool same_places(const Grid& a, const Grid& b);

}  // namespace stepcast::cluster
