// The arithmetic of a cluster: which GPU has which NVLink domain, NIC port, leaf, spine and core
// links. Everything that the public Topology answers is computed from these few vectors, so a
// cluster of 100,000 GPUs takes little memory; the Boost.Graph form of the same cluster
// (graph.h) is built on demand only.
//
// Slots count GPUs node by node. A PORT is what a GPU sees of the network: its own NIC, a share of
// one (fewer NICs than GPUs), or several bundled (more NICs than GPUs). A UNIT is `nodes_per_leaf`
// consecutive nodes. Rail-optimised: one leaf per (unit, port of the node); else one leaf per unit
// for all ports. A POD is `nodes_per_pod` nodes under one set of spines: of a three-level tree, or
// a dragonfly+ group; spine s of every pod is linked to core s, or to spine s of every other pod.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <variant>
#include <vector>

#include "mesh.h"
#include "stepcast/base/diagnostics.h"
#include "stepcast/base/quantity.h"
#include "stepcast/job/job.h"
#include "torus.h"

namespace stepcast::cluster {

// Latencies of hops, one way.
// NVLink through an NVSwitch: about 0.35 us between SMs of two GPUs (pointer-chase figures of
// 0.6-0.7 us there and back for A100 and H100 DGX: "Dissecting the NVIDIA Hopper architecture
// through microbenchmarking", 2024).
inline constexpr double kNvlinkHop = 0.175e-6;  // seconds, GPU to switch
// PCIe switch or root port: about 0.1-0.15 us each (Neugebauer et al., SIGCOMM 2018, fig. 6,
// divided by hops).
inline constexpr double kPcieHop = 0.25e-6;  // seconds
// Adapter and first switch: ConnectX-6/7 product briefs state 0.6 us, Quantum switches 0.13 us a
// hop.
inline constexpr double kNicAndLeaf = 0.75e-6;  // seconds
inline constexpr double kSwitchHop = 0.13e-6;   // seconds

// The largest number of NIC ports of one node.
inline constexpr int kMaxPorts = 1024;

struct Plan {
  job::Cluster cluster;
  int gpus = 0;         // of one node
  int ports = 0;        // of one node; 0: no network
  int domain_gpus = 0;  // GPUs of one NVLink (or, without NVLink, PCIe) domain
  int leaves_per_unit = 0;
  int units = 0;
  int units_per_pod = 0;  // all of them where there is one pod
  int pods = 1;
  int spines = 0;                           // of one pod; 0: the cluster has a single leaf
  std::vector<const job::Device*> devices;  // per node
  std::vector<double> nvlink;               // bytes/s per slot; PCIe where there is no NVLink
  std::vector<double> port;                 // bytes/s per (node, port), after faults and efficiency
  std::vector<int> instead;    // for each port the one that serves in its place; empty: all work
  std::vector<double> uplink;  // bytes/s per leaf, all spines together
  std::vector<double> uplink_each;  // bytes/s per leaf to a spine without faults
  std::vector<int> spine_resource;  // per leaf; -1 where the uplink cannot be the bottleneck
  std::vector<double> spine_left;   // share left, per (pod, spine)
  std::vector<double> core;         // bytes/s per pod: core or global links; empty: one pod
  std::vector<double> core_each;    // bytes/s per pod and spine without faults of that spine
  std::vector<int> core_resource;   // per pod, or -1
  int uplink_cables = 0;            // of one leaf
  int core_cables = 0;              // of one pod
  std::vector<MeshLinks>
      meshes;                // listed links: one, or one per node where faults or devices differ
  int pcie_resource = -1;    // the first of the switches' uplinks, node by node
  int socket_resource = -1;  // the first of the sockets' links to each other
  Torus torus;

  int slots() const { return cluster.nodes * gpus; }
  int node_of(int slot) const { return slot / gpus; }
  int domain_of(int slot) const { return slot / domain_gpus; }
  bool has_nvlink(int node) const {
    return cluster.node.intra != job::Node::Intra::pcie && devices[node]->nvlink.count() > 0;
  }
  bool mesh() const { return cluster.node.intra == job::Node::Intra::nvlink_mesh; }
  // The listed links of a node; nullptr: none are listed.
  const MeshLinks* links(int node) const {
    return meshes.empty() ? nullptr : &meshes[meshes.size() == 1 ? 0 : node];
  }
  // Whether two GPUs of one domain reach each other over NVLink without passing another GPU.
  bool linked(int a, int b) const {
    if (!has_nvlink(node_of(a)) || !has_nvlink(node_of(b))) {
      return false;
    }
    const MeshLinks* mesh_links = links(node_of(a));
    return mesh_links == nullptr || mesh_links->linked(a % gpus, b % gpus);
  }
  // Share of a GPU's NVLink that is left after faults.
  double nvlink_left(int slot) const {
    return nvlink[slot] / devices[node_of(slot)]->nvlink.count();
  }
  double pcie(int slot) const {  // where the GPU has NVLink, its faults concern NVLink and not PCIe
    const int node = node_of(slot);
    return has_nvlink(node) ? devices[node]->pcie.count() : nvlink[slot];
  }

  bool rails() const { return leaves_per_unit == ports; }
  int port_of(int slot) const {  // index in `port`, over the cluster
    const int local = slot % gpus;
    const int own =
        node_of(slot) * ports + static_cast<int>(static_cast<std::int64_t>(local) * ports / gpus);
    return instead.empty() ? own : instead[own];
  }
  int unit_of_node(int node) const { return node / cluster.fabric.nodes_per_leaf; }
  int leaf_of_port(int index) const {
    const int node = index / ports;
    return unit_of_node(node) * leaves_per_unit + (rails() ? index % ports : 0);
  }
  int pod_of_leaf(int leaf) const { return leaf / leaves_per_unit / units_per_pod; }
  int pod_of_node(int node) const { return unit_of_node(node) / units_per_pod; }
  bool dragonfly() const { return cluster.fabric.kind == job::Fabric::Kind::dragonfly; }
  bool adaptive() const { return cluster.fabric.routing == job::Fabric::Routing::adaptive; }
  // Rate from one pod to another over one spine.
  double core_bundle(int pod, int spine) const {
    return core_each[pod] * spine_left[pod * spines + spine] / (dragonfly() ? pods - 1 : 1);
  }
  double leaf_bundle(int leaf, int spine) const {
    return uplink_each[leaf] * spine_left[pod_of_leaf(leaf) * spines + spine];
  }

  // The PCIe tree of a node.
  int switches() const { return cluster.node.pcie_switches; }
  int switch_of(int local) const { return local * switches() / cluster.node.gpus; }
  int sockets() const { return std::min(cluster.node.sockets, gpus); }
  int socket_of(int local) const { return local * sockets() / cluster.node.gpus; }
  double pcie_uplink(int node) const {
    const double stated = cluster.node.pcie_uplink.count();
    return stated > 0 ? stated : devices[node]->pcie.count();
  }

  // Seconds through the adapter and the first switch.
  double nic_latency() const {
    const double stated = to_seconds(cluster.node.nic_latency);
    return stated > 0 ? stated : kNicAndLeaf;
  }
};

std::variant<Plan, Infeasible> make_plan(const job::Cluster& cluster);

// Applies the cluster's faults: first to capacities, then to ports, which others of their node
// replace. Returns a reason when a fault names nothing, or when no job can run with it.
std::optional<std::string> apply_faults(Plan& plan, double nic_rate);

}  // namespace stepcast::cluster
