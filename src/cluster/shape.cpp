// LAW: members of one domain use the NIC ports of their own GPUs, each port once. nic_per_domain is
// the sum of the ports' rates, nic_per_rank that sum shared by the members; both for the slowest
// domain. A group that crosses spines counts a port at no more than its share of the leaf's uplink
// when every port below leaves at once. COST: O(group) for slots in rising order, O(group log
// group) else.
#include <algorithm>
#include <limits>
#include <vector>

#include "state.h"

namespace stepcast::cluster {

GroupShape Topology::shape(std::span<const int> given) const {
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
  constexpr double kNone = std::numeric_limits<double>::infinity();
  const auto& c = plan.cluster;
  shape.sharp = c.fabric.sharp;
  shape.pxn = c.fabric.pxn;
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
  shape.amd_cpu = c.node.amd_cpu;
  shape.nvls =
      c.node.nvls && shape.has_nvlink && capability >= 9;  // NVLink SHARP arrived with Hopper

  // Rails inside one pod never need the spine: NCCL moves the data to the GPU beside the right rail
  // over NVLink (PXN).
  if (plan.ports > 0 && plan.spines > 0 && shape.nodes > 1) {
    shape.crosses_spine = plan.pod_of_node(plan.node_of(slots.front())) !=
                          plan.pod_of_node(plan.node_of(slots.back()));
  }
  const bool pcie_between = shape.nodes == 1;  // domains of one node meet over PCIe
  double per_rank = kNone;
  double per_domain = kNone;
  int smallest = shape.ranks;
  int pod = -1;
  int in_pod = 0;
  for (std::size_t i = 0; i < slots.size();) {
    const int domain = plan.domain_of(slots[i]);
    const std::size_t first = i;
    double rate = 0;
    int ports = 0;
    int port = -1;
    int rails = 0;  // ports of the domain's first node
    const int first_node = plan.node_of(slots[i]);
    for (; i < slots.size() && plan.domain_of(slots[i]) == domain; ++i) {
      if (pcie_between) {
        rate += plan.devices[plan.node_of(slots[i])]->pcie.count();
        ++ports;
      } else if (plan.ports > 0 && plan.port_of(slots[i]) != port) {
        port = plan.port_of(slots[i]);
        double r = plan.port[port];
        if (shape.crosses_spine) {
          r = std::min(r, plan.uplink_share[plan.leaf_of_port(port)]);
        }
        rate += r;
        ++ports;
        rails += plan.node_of(slots[i]) == first_node ? 1 : 0;
      }
    }
    const int members = static_cast<int>(i - first);
    ++shape.domains;
    shape.ranks_per_domain = std::max(shape.ranks_per_domain, members);
    smallest = std::min(smallest, members);
    per_rank = std::min(per_rank, rate / members);
    per_domain = std::min(per_domain, rate);
    shape.nics_per_domain =
        shape.nics_per_domain == 0 ? ports : std::min(shape.nics_per_domain, ports);
    if (shape.crosses_spine) {
      shape.nics_per_leaf = std::max(shape.nics_per_leaf, plan.rails() ? ports / rails : ports);
      in_pod = plan.pod_of_node(first_node) == pod ? in_pod + 1 : 1;
      pod = plan.pod_of_node(first_node);
      shape.domains_per_leaf = std::max(shape.domains_per_leaf, in_pod);
    }
  }
  shape.even = smallest == shape.ranks_per_domain;
  if (shape.domains > 1) {
    shape.nic_per_rank = Bandwidth(per_rank);
    shape.nic_per_domain = Bandwidth(per_domain);
    shape.pairs_nic_per_domain = shape.nic_per_domain;
    shape.pairs_cross_spine = shape.crosses_spine;
    double latency = 2 * kPcieHop;
    if (!pcie_between) {
      latency = 2 * plan.nic_latency() + (shape.crosses_spine ? 2 * kSwitchHop : 0);
    }
    shape.network_latency = seconds(latency);
  } else {
    shape.nics_per_domain = 0;
  }
  return shape;
}

}  // namespace stepcast::cluster
