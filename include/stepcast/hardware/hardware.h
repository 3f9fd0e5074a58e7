// The machine that a step runs on, as a user states it: devices, nodes, the network between nodes, and what is wrong with
// them. Plain structs, no behaviour, no files.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "stepcast/base/quantity.h"
#include "stepcast/base/spelling.h"
#include "stepcast/terms/kernels.h"
#include "stepcast/terms/number_format.h"

namespace stepcast::hardware {

// Who makes a device: which collective library it has, and which kernels stand in where none was measured.
enum class Vendor { other, nvidia, amd, google };

constexpr auto spellings(Vendor) {
  return std::to_array<Spelling<Vendor>>(
      {{Vendor::other, "other"}, {Vendor::nvidia, "nvidia"}, {Vendor::amd, "amd"}, {Vendor::google, "google"}});
}

struct Device {
  std::string name;                // "h100-sxm"
  Vendor vendor = Vendor::other;   // not stated: vendor_of
  double compute_capability = 0;   // 9.0; 0 for devices that are not NVIDIA's
  std::map<DType, FlopRate> peak;  // dense peaks; fp32 is the non-tensor peak
  Bytes memory;                    // as sold: 80 GB
  Bytes usable_memory;             // what a process can see; 0: memory
  Bandwidth memory_bandwidth;
  Bytes l2;
  int sms = 0;
  int matrix_unit = 0;  // side of the square arrays that multiply matrices (TPU: MXU), in elements; 0: no such arrays
  Bandwidth nvlink;     // per direction and GPU; 0: none
  int nvlink_generation = 0;
  Bandwidth pcie;  // per direction, as the data sheet states
  Power power;
  std::string source;  // where the figures above are from
  // Rates of the device that the name means where a job states others (a what-if); 0: not known by name. Collectives were
  // measured at those rates, and a what-if is scaled from them.
  Bandwidth named_nvlink;
  Bandwidth named_pcie;
  bool operator==(const Device&) const = default;
};

// The stated vendor; where none is, a compute capability says NVIDIA.
Vendor vendor_of(const Device& device);

// Dense peak of matrix products in a format; 0: the device does not compute in it. Block-scaled 8-bit formats run at the
// 8-bit rate: fp8_block, scaled by software, from Hopper on (compute capability 9), mxfp8 from Blackwell on (10).
FlopRate peak_of(const Device& device, DType type);

// The CUDA compute capability from which on a kernel runs; 0: any.
double least_compute_capability(AttentionKernel kernel);

// Whether PyTorch's scaled_dot_product_attention, where it prefers cuDNN's kernel at all, does so on this device: on Hopper
// and on Blackwell of data centres (job::System::prefers_cudnn_attention, tests/oracle/README.md).
bool prefers_cudnn_attention(const Device& device);

// NVLink links between two GPUs of a node.
struct NvlinkEdge {
  int a = 0;  // GPUs, from 0
  int b = 0;
  int links = 1;
  bool operator==(const NvlinkEdge&) const = default;
};

struct Node {
  std::string name;
  int gpus = 0;
  enum class Intra { nvswitch, nvlink_mesh, pcie } intra = Intra::nvswitch;
  bool nvls = false;                     // NVLink SHARP in the switches
  int nics = 0;                          // per node
  Bandwidth nic;                         // one NIC, per direction, line rate
  Time nic_latency{0};                   // one way through the NIC and first switch; 0: the fabric's figure
  bool amd_cpu = false;                  // NCCL's latency constants differ on AMD hosts
  std::vector<NvlinkEdge> nvlink_links;  // for nvlink_mesh; empty: each GPU's links are spread evenly over all others
  // The PCIe tree: GPUs in order below switches, switches in order below sockets.
  int sockets = 1;           // NUMA domains, each with its own root complex
  int pcie_switches = 0;     // of the node; 0: every GPU on a root port of its own
  Bandwidth pcie_uplink;     // a switch's link to its root port, per direction; 0: as fast as one GPU's
  Bandwidth inter_socket;    // between two sockets, per direction; 0: never the bottleneck
  bool peer_to_peer = true;  // GPUs reach each other over PCIe; false: through host memory (GeForce)
  // What offloading uses; all GPUs of the node share it. 0: not known, and offloading there is refused.
  Bytes host_memory;                // DRAM of the node
  Bandwidth host_memory_bandwidth;  // of all sockets, as the data sheet states
  int cpu_cores = 0;                // physical
  Bytes nvme;                       // local drives, together
  Bandwidth nvme_read;
  Bandwidth nvme_write;
  std::string source;
  // As Device::named_nvlink.
  Bandwidth named_nic;
  Bandwidth named_pcie_uplink;
  Bandwidth named_inter_socket;
  bool operator==(const Node&) const = default;
};

constexpr auto spellings(Node::Intra) {
  return std::to_array<Spelling<Node::Intra>>(
      {{Node::Intra::nvswitch, "nvswitch"}, {Node::Intra::nvlink_mesh, "nvlink_mesh"}, {Node::Intra::pcie, "pcie"}});
}

struct Fabric {
  std::string name;
  enum class Kind { rail_optimized, fat_tree, nvl72, none, dragonfly, torus } kind = Kind::rail_optimized;
  double oversubscription = 1;       // downlink over uplink capacity at the leaf
  int nodes_per_leaf = 32;           // nodes below one leaf (rail-optimised: below one group of rail leaves)
  int nodes_per_pod = 0;             // nodes of a pod (three-level tree) or group (dragonfly+); 0: two levels
  double core_oversubscription = 1;  // capacity below a pod over capacity of its core (dragonfly+: global) links: the taper
  int spines = 0;                    // of one pod; 0: at most 4, which is enough to route over
  int uplinks_per_leaf = 0;          // cables that a hash chooses from; 0: the uplinks' rate over a NIC's
  int flows_per_nic = 2;             // connections that one NIC's traffic is cut into. NCCL: two ring channels per
                                     // NIC on A100 and H100 nodes, one queue pair each (NCCL_IB_QPS_PER_CONNECTION 1)
  std::vector<int> torus;            // chips of a slice along each dimension; empty: as cubic as possible
  int torus_dimensions = 3;          // of a torus whose `torus` is empty
  int torus_block = 0;               // a dimension wraps around if it is a multiple of this; 0: all do
  int slices = 1;                    // of a torus: equal parts of the nodes, each a torus, joined by the nodes' NICs
  int nvlink_domain_gpus = 0;        // GPUs that share NVLink; 0: those of one node
  int segment = 0;                   // nodes that the scheduler keeps in one NVLink domain together (sbatch --segment);
                                     // 0: as many as a domain holds and the number of nodes is a multiple of
  double efficiency = 1;             // measured share of the line rate that is reached
  enum class Routing { adaptive, ecmp } routing = Routing::adaptive;
  bool sharp = false;  // switches reduce in the network (SHARP), and NCCL's CollNet is enabled
  bool pxn = true;     // NCCL's PXN: a GPU may send through the NIC of another GPU, over NVLink
  std::string source;
  bool operator==(const Fabric&) const = default;
};

constexpr auto spellings(Fabric::Kind) {
  return std::to_array<Spelling<Fabric::Kind>>({{Fabric::Kind::rail_optimized, "rail_optimized"},
                                                {Fabric::Kind::fat_tree, "fat_tree"},
                                                {Fabric::Kind::nvl72, "nvl72"},
                                                {Fabric::Kind::none, "none"},
                                                {Fabric::Kind::dragonfly, "dragonfly"},
                                                {Fabric::Kind::torus, "torus"}});
}

constexpr auto spellings(Fabric::Routing) {
  return std::to_array<Spelling<Fabric::Routing>>(
      {{Fabric::Routing::adaptive, "adaptive"}, {Fabric::Routing::ecmp, "ecmp"}});
}

struct LinkFault {
  // "node3/nic2", "node3/gpu1" (its NVLink), "node3/gpu0-gpu1" (the links between them), "leaf0/up", "leaf0" (the whole
  // switch), "spine2", "pod1/up" (its core or global links), "rail3" (NIC 3's leaf port of every node).
  std::string target;
  double bandwidth = 1;  // share of the capacity that is left, above 0
  bool down = false;     // no capacity is left
  bool operator==(const LinkFault&) const = default;
};

// Nodes `first` .. `first + count - 1` have another device.
struct DeviceOverride {
  int first = 0;
  int count = 0;
  Device device;
  bool operator==(const DeviceOverride&) const = default;
};

struct Cluster {
  std::string name;
  int nodes = 0;
  Node node;
  Device device;
  Fabric fabric;
  std::vector<DeviceOverride> overrides;
  std::vector<LinkFault> faults;
  std::string order = "tp-cp-ep-dp-pp";  // order of ranks, from the axis that varies fastest
  int ranks() const { return nodes * node.gpus; }
  bool operator==(const Cluster&) const = default;
};

// The cluster with the rates of the parts that its names mean, where a job states others; nullopt: it states none.
std::optional<Cluster> at_named_rates(const Cluster& cluster);

// The device of a node: that of the last override that names it.
const Device& device_at(const Cluster& cluster, int node);

// How many nodes have each kind of device (by name), in the order of the first of them.
struct DeviceNodes {
  const Device* device = nullptr;
  int nodes = 0;
};
std::vector<DeviceNodes> device_nodes(const Cluster& cluster);

// Dense peak of the cluster's GPUs together over their number.
FlopRate mean_peak_of(const Cluster& cluster, DType type);

}  // namespace stepcast::hardware
