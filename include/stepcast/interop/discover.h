// What other tools know of a cluster, as a cluster file: NCCL's topology dumps, nvidia-smi's matrix, Slurm's and Kubernetes'
// lists of nodes; this host, by NVML, CUDA and Linux.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/base/quantity.h"

namespace stepcast::interop {

// A node as one source sees it; 0 and "": it does not say.
struct NodeFacts {
  std::string name;
  std::string product;   // of its GPUs, as written: "NVIDIA-H100-80GB-HBM3", "h100", PCI id "0x2330"
  std::string device;    // of configs/devices
  std::string instance;  // a cloud's type: "p5.48xlarge"
  int gpus = 0;
  int nics = 0;
  Bandwidth nic;          // one adapter, per direction
  int nvlinks = 0;        // of one GPU
  bool switched = false;  // NVLinks lead to switches
  struct Edge {
    int a = 0, b = 0, links = 0;
  };
  std::vector<Edge> mesh;  // between GPUs, where they are linked directly
  Bandwidth nvlink;        // of one GPU, per direction
  int sockets = 0;
  int cores = 0;  // physical, of the node
  Bytes host_memory;
  std::optional<bool> amd_cpu;
  Origin where;
};

// Nodes, and what was left out and why: one sentence each.
struct NodeList {
  std::vector<NodeFacts> nodes;
  std::vector<std::string> notes;
};

// NCCL_TOPO_DUMP_FILE: the node that wrote it. A dump of several hosts (NVLink across nodes): the first.
NodeList read_nccl_topology(const std::filesystem::path& file);
// `nvidia-smi topo -m`.
NodeList read_nvidia_smi_topology(const std::filesystem::path& file);
// `scontrol show nodes` (one record a node, with -o one line), or `sinfo` with columns NODELIST and GRES. Nodes that are
// down or drained are left out. `only`: a list as $SLURM_NODELIST; empty: all.
NodeList read_slurm(const std::filesystem::path& file, const std::string& only);
// `kubectl get nodes -o json`: nodes that allocate nvidia.com/gpu, ready and schedulable.
NodeList read_kubernetes(const std::filesystem::path& file);
// This host's GPUs by NVML, which is loaded when called; a note says why there are none.
NodeList ask_nvml();
// The same by the CUDA driver, for containers that have it alone: the GPUs that CUDA_VISIBLE_DEVICES leaves, without a count
// of their links.
NodeList ask_cuda();
// What Linux says of this host beside its GPUs, below `root`: RDMA adapters and their rate, sockets, cores, memory.
NodeFacts ask_linux(const std::filesystem::path& root);
// This host: NVML, or else CUDA, and Linux. No node where neither knows a GPU.
NodeList ask_host();

// "dgx-[001-003,010],login" as names, leading zeros kept. Throws InputError at `where`, columns counted on.
std::vector<std::string> expand_hostlist(const std::string& text, const Origin& where);

// The name in configs/devices of a GPU as tools print it ("NVIDIA A100-SXM4-80GB", "h100", PCI id "0x2330"); "" unknown.
std::string device_of_product(const std::string& product);

struct ClusterFile {
  std::string yaml;
  std::vector<std::string> notes;  // what was chosen, and what could not be learnt
};

struct DiscoverRequest {
  NodeList nodes;       // Slurm's, Kubernetes'; none: as many as `count` of `shape`
  NodeList shape;       // of one node: NCCL, nvidia-smi, the host; facts that the list leaves open
  int count = 0;        // 0: those of the list, or 1
  std::string device;   // stated by the user
  std::string sources;  // for the file's first line
};

// A cluster of configs/ with what was found otherwise beside it. Throws InputError where no device is known, or no node has
// a GPU.
ClusterFile cluster_file(const DiscoverRequest& request);

}  // namespace stepcast::interop
