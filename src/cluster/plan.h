// The arithmetic of a cluster: which GPU has which NVLink domain, NIC port, leaf and spine uplink.
// Everything that the public Topology answers is computed from these few vectors, so a cluster of
// 100,000 GPUs costs a few of them; the Boost.Graph picture of the same cluster (graph.h) is made
// on demand only.
//
// Slots count GPUs node by node. A PORT is what a GPU sees of the network: its own NIC, a share of
// one (fewer NICs than GPUs), or several bundled (more NICs than GPUs). A POD is `nodes_per_leaf`
// consecutive nodes. Rail-optimised: one leaf per (pod, port of the node); fat tree: one leaf per
// pod for all ports.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/base/quantity.h"
#include "stepcast/job/job.h"

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

struct Plan {
  job::Cluster cluster;
  int gpus = 0;         // of one node
  int ports = 0;        // of one node; 0: no network
  int domain_gpus = 0;  // GPUs of one NVLink (or, without NVLink, PCIe) domain
  int leaves_per_pod = 0;
  int pods = 0;
  int spines = 0;                           // 0: one pod
  std::vector<const job::Device*> devices;  // per node
  std::vector<double> nvlink;               // bytes/s per slot; PCIe where there is no NVLink
  std::vector<double> port;                 // bytes/s per (node, port), after faults and efficiency
  std::vector<double> uplink;               // bytes/s per leaf, all spines together
  std::vector<double>
      uplink_share;  // bytes/s per port below, when all of them leave the pod at once
  std::vector<int> spine_resource;  // per leaf, or -1 where the uplink cannot bind

  int slots() const { return cluster.nodes * gpus; }
  int node_of(int slot) const { return slot / gpus; }
  int domain_of(int slot) const { return slot / domain_gpus; }
  bool has_nvlink(int node) const {
    return cluster.node.intra != job::Node::Intra::pcie && devices[node]->nvlink.count() > 0;
  }
  bool mesh() const { return cluster.node.intra == job::Node::Intra::nvlink_mesh; }
  bool rails() const { return leaves_per_pod == ports; }
  int port_of(int slot) const {  // index in `port`, over the cluster
    const int local = slot % gpus;
    return node_of(slot) * ports +
           static_cast<int>(static_cast<std::int64_t>(local) * ports / gpus);
  }
  int pod_of_node(int node) const { return node / cluster.fabric.nodes_per_leaf; }
  int leaf_of_port(int index) const {
    const int node = index / ports;
    return pod_of_node(node) * leaves_per_pod + (rails() ? index % ports : 0);
  }
  // Seconds through the adapter and the first switch.
  double nic_latency() const {
    const double stated = to_seconds(cluster.node.nic_latency);
    return stated > 0 ? stated : kNicAndLeaf;
  }
};

std::variant<Plan, Infeasible> make_plan(const job::Cluster& cluster);

}  // namespace stepcast::cluster
