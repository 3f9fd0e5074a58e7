// LAW: members of one domain use the NIC ports of their own GPUs, each port once. nic_per_domain is
// the sum of the ports' rates, nic_per_rank that sum divided by the members; both are of the
// slowest domain. NCCL divides a ring's bytes evenly over its ports, while in all-to-all each rank
// sends its own bytes. So the slowest port, or in all-to-all the rank with the smallest share of a
// port, sets the rate of its domain. In a group that crosses spines (or cores) a port has no more
// than its share of the leaf's uplink (the pod's core links). A ring visits nodes in their order,
// so only one domain below a leaf sends out of the leaf, and its ports share the uplink. In
// all-to-all every port of the d member domains below a leaf sends (D - d) / (D - 1) of its bytes
// out of it, of D domains in all. Traffic of other groups on the same uplinks is contention, which
// the engine computes.
//
// Rings stay on their rails: data for another rail moves over NVLink to the GPU beside it (PXN)
// before it leaves the node. Without PXN, k rails send (k - 1) / k of all-to-all's bytes over the
// spine, even inside one unit.
//
// Dragonfly+, G groups, g bytes/s of global links each, K groups hold members. Minimal routes use
// the d = g / (G - 1) between two groups: a ring leaves its group with d, all-to-all with (K - 1)
// d. Adaptive (Valiant) routes also pass a third group. They have its links alone if it holds no
// members, else they share them with that group's own detours: a ring has d (1 + (G - K) + (K - 2)
// / 2), all-to-all g.
//
// ECMP: the group's flows at a switch are hashed together with those of its siblings, which are
// groups placed like it that fill the switch. In a ring the ports of one domain below each leaf
// send, in all-to-all those of all domains, each to several peers at once.
//
// COST: O(group) for slots in ascending order, else O(group log group). Rings in a mesh of listed
// links are searched once for each set of GPUs of a node.
#include <algorithm>
#include <bitset>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "state.h"

namespace stepcast::cluster {
namespace {

// Peers that NCCL's all-to-all sends to at the same time: NCCL_MAX_DEV_WORK_P2P_PER_BATCH of
// src/include/device.h.
constexpr int kPeersAtOnce = 8;
constexpr double kNone = std::numeric_limits<double>::infinity();
using Rails = std::bitset<kMaxPorts>;

// A ring in PCIe order passes each switch's uplink and the link between sockets once. Without
// peer-to-peer, every member's data passes the uplink to host memory.
struct PcieRing {
  double rate = kNone;
  bool over_switches = false;
  bool over_sockets = false;
};

PcieRing pcie_ring(const Plan& plan, std::span<const int> slots) {
  PcieRing ring;
  const int node = plan.node_of(slots.front());
  for (const int slot : slots) {
    ring.rate = std::min(ring.rate, plan.pcie(slot));
  }
  if (slots.size() < 2) {
    return ring;
  }
  const int front = slots.front() % plan.gpus;
  const int back = slots.back() % plan.gpus;
  const bool host = !plan.cluster.node.peer_to_peer;
  if (plan.switches() > 0 && (host || plan.switch_of(front) != plan.switch_of(back))) {
    int most = 0;
    int below = 0;
    int before = -1;
    for (const int slot : slots) {
      const int s = plan.switch_of(slot % plan.gpus);
      below = s == before ? below + 1 : 1;
      before = s;
      most = std::max(most, below);
    }
    ring.over_switches = true;
    ring.rate = std::min(ring.rate, plan.pcie_uplink(node) / (host ? most : 1));
  }
  if (plan.socket_of(front) != plan.socket_of(back)) {
    ring.over_sockets = true;
    const double link = plan.cluster.node.inter_socket.count();
    ring.rate = link > 0 ? std::min(ring.rate, link) : ring.rate;
  }
  return ring;
}

// Calls `visit` for each run of consecutive items for which `of` returns the same value.
template <class Of, class Visit>
void runs(std::span<const int> slots, const Of& of, const Visit& visit) {
  for (std::size_t i = 0; i < slots.size();) {
    const std::size_t first = i;
    const int what = of(slots[i]);
    while (i < slots.size() && of(slots[i]) == what) {
      ++i;
    }
    visit(slots.subspan(first, i - first));
  }
}

// The network as a group sees it.
class Network {
 public:
  Network(const Plan& plan, std::shared_ptr<const HashTable> hash, std::span<const int> slots,
          GroupShape& shape)
      : plan_(plan), hash_(std::move(hash)), slots_(slots), shape_(shape) {}

  void fill() {
    if (plan_.ports > 0 && plan_.spines > 0 && shape_.nodes > 1) {
      find_crossings();
    }
    sum_domains();
    shape_.nic_per_rank = Bandwidth(per_rank_);
    shape_.nic_per_domain = Bandwidth(per_domain_);
    shape_.pairs_nic_per_domain = Bandwidth(pairs_per_domain_);
    const int switches = shape_.crosses_core    ? (plan_.dragonfly() ? 3 : 4)
                         : shape_.crosses_spine ? 2
                                                : 0;
    shape_.network_latency = seconds(2 * plan_.nic_latency() + switches * kSwitchHop);
    if (!plan_.adaptive() && shape_.pairs_cross_spine) {
      hash_routes();
    }
  }

 private:
  int unit(int slot) const { return plan_.unit_of_node(plan_.node_of(slot)); }
  int pod(int slot) const { return plan_.pod_of_node(plan_.node_of(slot)); }

  void find_crossings() {
    const bool several_units = unit(slots_.front()) != unit(slots_.back());
    shape_.crosses_core = pod(slots_.front()) != pod(slots_.back());
    runs(
        slots_, [&](int s) { return unit(s); }, [&](auto) { ++units_; });
    runs(
        slots_, [&](int s) { return pod(s); }, [&](auto) { ++pods_; });
    bool alike = true;
    Rails all;
    if (plan_.rails() && plan_.ports > 1) {
      Rails first;
      bool begun = false;
      runs(
          slots_, [&](int s) { return plan_.domain_of(s); },
          [&](std::span<const int> members) {
            Rails mine;
            for (const int slot : members) {
              mine.set(static_cast<std::size_t>(plan_.port_of(slot) % plan_.ports));
            }
            first = begun ? first : mine;
            begun = true;
            alike = alike && mine == first;
            all |= mine;
          });
      rails_ = static_cast<int>(all.count());
    }
    shape_.crosses_spine = several_units || (!alike && !shape_.pxn);
    shape_.pairs_cross_spine = shape_.crosses_spine || (rails_ > 1 && !shape_.pxn);
    several_units_ = several_units;
    if (shape_.pairs_cross_spine) {
      count_ports();
    }
  }

  double core_limit(int pod, bool pairs) const {
    const double all = plan_.core[pod];
    if (!plan_.dragonfly()) {
      return all;
    }
    const double groups = plan_.pods;
    const double direct = all / (groups - 1);
    if (pairs) {
      return plan_.adaptive() ? all : direct * (pods_ - 1);
    }
    return plan_.adaptive() ? direct * (1 + (groups - pods_) + (pods_ - 2) / 2.0) : direct;
  }

  // The rate at which a port can send in a ring, or with `pairs` in an all-to-all.
  double reach(int port, bool pairs) const {
    double rate = plan_.port[port];
    const int leaf = plan_.leaf_of_port(port);
    if (!(pairs ? shape_.pairs_cross_spine : shape_.crosses_spine)) {
      return rate;
    }
    // Traffic out of the leaf, and then out of the pod, as a multiple of what one port sends.
    const double leaf_load = shape_.nics_per_leaf * (pairs ? leaf_load_ : 1);
    rate = std::min(rate, plan_.uplink[leaf] / leaf_load);
    if (shape_.crosses_core) {
      const double pod_load = most_ports_ * (pairs ? pod_load_ : 1);
      rate = std::min(rate, core_limit(plan_.pod_of_leaf(leaf), pairs) / pod_load);
    }
    return rate;
  }

  // Counts the ports of the domain that has the most, in all and below one leaf, and the traffic of
  // an all-to-all out of the fullest leaf and pod, as a multiple of what one domain sends.
  void count_ports() {
    const double others = std::max(1, shape_.domains - 1);
    // Without PXN, data for another rail crosses the spine even between nodes below one leaf.
    const double changes = !shape_.pxn && rails_ > 1 ? (rails_ - 1.0) / rails_ : 0;
    const auto most = [&](const auto& place, double near) {
      double load = 0;
      int domains = 0;
      int at = -1;
      const auto add = [&] {
        const double far = (shape_.domains - domains) / others;
        load = std::max(load, domains * (far + (1 - far) * near));
      };
      runs(
          slots_, [&](int s) { return plan_.domain_of(s); },
          [&](std::span<const int> members) {
            const int here = place(members.front());
            if (here != at) {
              add();
              domains = 0;
              at = here;
            }
            ++domains;
          });
      add();
      return load;
    };
    leaf_load_ = most([&](int s) { return unit(s); }, changes);
    pod_load_ = most([&](int s) { return pod(s); }, 0);
    runs(
        slots_, [&](int s) { return plan_.domain_of(s); },
        [&](std::span<const int> members) {
          const int node = plan_.node_of(members.front());
          int ports = 0;
          int first_node = 0;
          runs(
              members, [&](int s) { return plan_.port_of(s); },
              [&](std::span<const int> users) {
                ++ports;
                first_node += plan_.node_of(users.front()) == node ? 1 : 0;
              });
          most_ports_ = std::max(most_ports_, ports);
          shape_.nics_per_leaf =
              std::max(shape_.nics_per_leaf, plan_.rails() ? ports / first_node : ports);
        });
  }

  void sum_domains() {
    int unit_before = -1;
    int pod_before = -1;
    int in_unit = 0;
    int in_pod = 0;
    runs(
        slots_, [&](int s) { return plan_.domain_of(s); },
        [&](std::span<const int> members) {
          double slowest = kNone;        // rate of the slowest port
          double slowest_share = kNone;  // smallest share of a port's rate that a member has
          int ports = 0;
          runs(
              members, [&](int s) { return plan_.ports > 0 ? plan_.port_of(s) : 0; },
              [&](std::span<const int> users) {
                if (plan_.ports == 0) {
                  return;
                }
                const int port = plan_.port_of(users.front());
                slowest = std::min(slowest, reach(port, false));
                slowest_share =
                    std::min(slowest_share, reach(port, true) / static_cast<double>(users.size()));
                ++ports;
              });
          const double rate = ports > 0 ? slowest * ports : 0;
          const double pairs = ports > 0 ? slowest_share * static_cast<double>(members.size()) : 0;
          per_rank_ = std::min(per_rank_, rate / static_cast<double>(members.size()));
          per_domain_ = std::min(per_domain_, rate);
          pairs_per_domain_ = std::min(pairs_per_domain_, pairs);
          shape_.nics_per_domain =
              shape_.nics_per_domain == 0 ? ports : std::min(shape_.nics_per_domain, ports);
          if (shape_.pairs_cross_spine) {
            in_unit = unit(members.front()) == unit_before ? in_unit + 1 : 1;
            unit_before = unit(members.front());
            shape_.domains_per_leaf = std::max(shape_.domains_per_leaf, in_unit);
            in_pod = pod(members.front()) == pod_before ? in_pod + 1 : 1;
            pod_before = pod(members.front());
            domains_per_pod_ = std::max(domains_per_pod_, in_pod);
          }
        });
  }

  void hash_routes() {
    const auto& f = plan_.cluster.fabric;
    const auto& node = plan_.cluster.node;
    // flows of one port to one peer
    const std::int64_t one = std::int64_t{f.flows_per_nic} * std::max(1, node.nics / plan_.ports);
    const std::int64_t peers = std::clamp(shape_.domains - 1, 1, kPeersAtOnce);
    const int port = plan_.port_of(slots_.front());
    const int leaf = plan_.leaf_of_port(port);
    const int leaves = std::max(
        1, several_units_ ? units_ * (shape_.nics_per_domain / shape_.nics_per_leaf) : rails_);
    const int below =
        std::min(f.nodes_per_leaf, plan_.cluster.nodes) * (plan_.ports / plan_.leaves_per_unit);
    const auto level = [&](int ports, int own, int cables, double rate, int switches, bool pairs) {
      // Of very many flows, a part is drawn over the same part of the links.
      constexpr std::int64_t kMaxFlows = 1 << 16;
      const std::int64_t flows = pairs ? one * peers : one;
      const std::int64_t all = std::max(ports, own) * flows;
      const std::int64_t part = (all + kMaxFlows - 1) / kMaxFlows;
      HashLevel at;
      at.own = static_cast<int>(std::max<std::int64_t>(1, own * flows / part));
      at.flows = static_cast<int>(all / part);
      at.links = static_cast<int>(std::max<std::int64_t>(1, cables / part));
      at.switches = switches;
      at.link_rate = rate / cables;
      at.flow_rate = reach(port, pairs) / static_cast<double>(flows);
      return at;
    };
    const auto levels_of = [&](bool pairs) {
      std::vector<HashLevel> levels;
      const int siblings = pairs ? 1 : shape_.domains_per_leaf;
      const int own = shape_.nics_per_leaf * (pairs ? shape_.domains_per_leaf : 1);
      levels.push_back(
          level(below / siblings, own, plan_.uplink_cables, plan_.uplink[leaf], leaves, pairs));
      if (shape_.crosses_core) {
        const int in_pod = std::min(f.nodes_per_pod, plan_.cluster.nodes) * plan_.ports;
        const int mine = shape_.nics_per_domain * (pairs ? domains_per_pod_ : 1);
        levels.push_back(level(in_pod / (pairs ? 1 : domains_per_pod_), mine, plan_.core_cables,
                               plan_.core[plan_.pod_of_leaf(leaf)], pods_, pairs));
      }
      return levels;
    };
    if (shape_.crosses_spine) {
      shape_.hash = RouteHash(std::make_shared<RouteHash::Draws>(hash_, levels_of(false)));
    }
    shape_.pairs_hash = RouteHash(std::make_shared<RouteHash::Draws>(hash_, levels_of(true)));
  }

  const Plan& plan_;
  std::shared_ptr<const HashTable> hash_;
  std::span<const int> slots_;
  GroupShape& shape_;
  bool several_units_ = false;
  int units_ = 0;
  int pods_ = 0;
  int rails_ = 1;       // rails that members use
  int most_ports_ = 1;  // ports of the domain that has the most
  double leaf_load_ = 1;
  double pod_load_ = 1;
  int domains_per_pod_ = 1;
  double per_rank_ = kNone;
  double per_domain_ = kNone;
  double pairs_per_domain_ = kNone;
};

// The slowest slice's rings count.
void span_torus(const Plan& plan, std::span<const int> slots, GroupShape& shape) {
  shape.torus = true;
  shape.torus_dimensions = plan.torus.dimensions;
  const double chip = shape.nvlink.count();
  int fewest = shape.ranks;
  runs(
      slots, [&](int s) { return plan.domain_of(s); },
      [&](std::span<const int> members) {
        const int count = static_cast<int>(members.size());
        std::vector<int> local(members.begin(), members.end());
        for (int& slot : local) {
          slot %= plan.domain_gpus;
        }
        const TorusSpan span = span_of(plan.torus, local);
        ++shape.domains;
        shape.ranks_per_domain = std::max(shape.ranks_per_domain, count);
        fewest = std::min(fewest, count);
        shape.torus_dimensions = std::min(shape.torus_dimensions, span.rings);
        if (count > 1) {
          shape.nvlink =
              std::min(shape.nvlink, Bandwidth(chip * span.links / plan.torus.chip_links));
        }
      });
  shape.even = fewest == shape.ranks_per_domain;
}

// Domains of one node meet over PCIe.
void meet_over_pcie(const Plan& plan, std::span<const int> slots, GroupShape& shape) {
  double per_rank = kNone;
  double per_domain = kNone;
  int fewest = shape.ranks;
  const PcieRing ring = pcie_ring(plan, slots);
  double shared = kNone;
  if (ring.over_switches || ring.over_sockets) {
    shared = ring.rate;
  }
  runs(
      slots, [&](int s) { return plan.domain_of(s); },
      [&](std::span<const int> members) {
        double rate = 0;
        for (const int slot : members) {
          rate += plan.devices[plan.node_of(slot)]->pcie.count();
        }
        rate = std::min(rate, shared);
        per_rank = std::min(per_rank, rate / static_cast<double>(members.size()));
        per_domain = std::min(per_domain, rate);
        fewest = std::min(fewest, static_cast<int>(members.size()));
      });
  shape.crosses_pcie_switch = ring.over_switches;
  shape.crosses_socket = ring.over_sockets;
  shape.nics_per_domain = fewest;
  shape.nic_per_rank = Bandwidth(per_rank);
  shape.nic_per_domain = shape.pairs_nic_per_domain = Bandwidth(per_domain);
  shape.network_latency = seconds(2 * kPcieHop);
}

// Whether each two of a domain's members have links of their own.
bool every_pair_linked(const Plan& plan, std::span<const int> slots) {
  const int node = plan.node_of(slots.front());
  const MeshLinks* mesh = plan.links(node);
  if (!plan.mesh() || !plan.has_nvlink(node) || mesh == nullptr) {
    return plan.mesh() && plan.has_nvlink(node);
  }
  return std::all_of(slots.begin(), slots.end(), [&](int a) {
    return std::all_of(slots.begin(), slots.end(),
                       [&](int b) { return a == b || mesh->linked(a % plan.gpus, b % plan.gpus); });
  });
}

}  // namespace

double Topology::State::ring(int node, std::uint32_t members) const {
  const MeshLinks* mesh = plan.links(node);
  const std::lock_guard lock(rings_mutex);
  const auto key = std::make_pair(static_cast<int>(mesh - plan.meshes.data()), members);
  const auto [at, fresh] = rings.emplace(key, 0.0);
  if (fresh) {
    std::vector<int> gpus;
    for (int gpu = 0; gpu < mesh->gpus; ++gpu) {
      if ((members >> gpu & 1U) != 0) {
        gpus.push_back(gpu);
      }
    }
    at->second = ring_rate(*mesh, gpus);
  }
  return at->second;
}

GroupShape Topology::shape(std::span<const int> slots) const {
  GroupShape shape = shape_here(slots);
  if (state_->named != nullptr) {
    Topology topology;
    topology.state_ = state_->named;
    const GroupShape other = topology.shape_here(slots);
    const bool alike = other.has_nvlink == shape.has_nvlink && other.domains == shape.domains &&
                       other.nics_per_domain == shape.nics_per_domain;
    const bool same = other.nvlink == shape.nvlink &&
                      other.nic_per_domain == shape.nic_per_domain &&
                      other.pairs_nic_per_domain == shape.pairs_nic_per_domain;
    if (alike && !same) {
      shape.named = GroupRates{other.nvlink, other.nic_per_domain, other.pairs_nic_per_domain,
                               other.hash, other.pairs_hash};
    }
  }
  return shape;
}

GroupShape Topology::shape_here(std::span<const int> given) const {
  const Plan& plan = state_->plan;
  GroupShape shape;
  shape.ranks = static_cast<int>(given.size());
  if (given.empty()) {
    return shape;
  }
  std::vector<int> sorted;
  std::span<const int> slots = given;
  if (!std::is_sorted(given.begin(), given.end())) {
    sorted.assign(given.begin(), given.end());
    std::sort(sorted.begin(), sorted.end());
    slots = sorted;
  }
  const auto& c = plan.cluster;
  double nvlink = kNone;
  double capability = kNone;
  int node = -1;
  for (const int slot : slots) {
    nvlink = std::min(nvlink, plan.nvlink[slot]);
    if (plan.node_of(slot) != node) {
      node = plan.node_of(slot);
      ++shape.nodes;
      shape.has_nvlink = shape.has_nvlink && plan.has_nvlink(node);
      capability = std::min(capability, plan.devices[node]->compute_capability);
    }
  }
  shape.nvlink = Bandwidth(nvlink);
  shape.compute_capability = capability;
  shape.vendor = hardware::vendor_of(*plan.devices[plan.node_of(slots.front())]);
  shape.amd_cpu = c.node.amd_cpu;
  shape.sharp = c.fabric.sharp;
  shape.pxn = c.fabric.pxn && shape.has_nvlink;
  if (plan.torus.dimensions > 0) {
    span_torus(plan, slots, shape);
    if (shape.domains > 1) {
      Network(plan, state_->hash, slots, shape).fill();
    }
    return shape;
  }
  int fewest = shape.ranks;
  runs(
      slots, [&](int s) { return plan.domain_of(s); },
      [&](std::span<const int> members) {
        const int count = static_cast<int>(members.size());
        ++shape.domains;
        shape.ranks_per_domain = std::max(shape.ranks_per_domain, count);
        fewest = std::min(fewest, count);
        const int host = plan.node_of(members.front());
        if (count < 2) {
          return;
        }
        if (plan.has_nvlink(host) && plan.links(host) == nullptr) {
          if (plan.mesh()) {  // links spread evenly: members use only those among themselves
            const double share = (count - 1.0) / (plan.domain_gpus - 1);
            shape.nvlink = std::min(shape.nvlink, Bandwidth(nvlink * share));
          }
          return;
        }
        double rate = 0;
        if (plan.has_nvlink(host)) {
          std::uint32_t mask = 0;
          double left = 1;
          for (const int slot : members) {
            mask |= 1U << (slot % plan.gpus);
            left = std::min(left, plan.nvlink_left(slot));
          }
          rate = state_->ring(host, mask) * left;
        }
        if (rate <= 0) {
          const PcieRing ring = pcie_ring(plan, members);
          rate = ring.rate;
          shape.has_nvlink = false;
          shape.crosses_pcie_switch = shape.crosses_pcie_switch || ring.over_switches;
          shape.crosses_socket = shape.crosses_socket || ring.over_sockets;
        }
        shape.nvlink = std::min(shape.nvlink, Bandwidth(rate));
      });
  shape.even = fewest == shape.ranks_per_domain;
  shape.all_linked = shape.domains == 1 && every_pair_linked(plan, slots);
  shape.nvls =
      c.node.nvls && shape.has_nvlink && capability >= 9;  // NVLink SHARP arrived with Hopper
  if (shape.domains > 1 && shape.nodes == 1) {
    meet_over_pcie(plan, slots, shape);
  } else if (shape.domains > 1) {
    Network(plan, state_->hash, slots, shape).fill();
  }
  return shape;
}

}  // namespace stepcast::cluster
