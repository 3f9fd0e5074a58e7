// Describes a cluster by what other tools know of it: NCCL's topology dumps, nvidia-smi's matrix, Slurm's and Kubernetes'
// lists of nodes, and on this host NVML, CUDA and Linux. The result is a cluster file.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/base/quantity.h"

namespace stepcast::interop {

// A node as one source sees it; 0 and "": the source does not state it.
struct NodeFacts {
  std::string name;
  std::string product;   // of its GPUs, as written: "NVIDIA-H100-80GB-HBM3", "h100", PCI id "0x2330"
  std::string device;    // its name in configs/devices
  std::string instance;  // a cloud's instance type: "p5.48xlarge"
  int gpus = 0;
  int nics = 0;
  Bandwidth nic;          // rate of one adapter, per direction
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

// Nodes, with notes on what was left out and why: one sentence each.
struct NodeList {
  std::vector<NodeFacts> nodes;
  std::vector<std::string> notes;
};

// A dump by NCCL_TOPO_DUMP_FILE: the node that wrote it. Of a dump of several hosts (NVLink across nodes), the first.
NodeList read_nccl_topology(const std::filesystem::path& file);
// The output of `nvidia-smi topo -m`.
NodeList read_nvidia_smi_topology(const std::filesystem::path& file);
// The output of `scontrol show nodes` (one record per node; with -o on one line), or of `sinfo` with columns NODELIST and
// GRES. Nodes that are down or drained are left out. `only`: a list like $SLURM_NODELIST; empty: all.
NodeList read_slurm(const std::filesystem::path& file, const std::string& only);
// The output of `kubectl get nodes -o json`: nodes that have nvidia.com/gpu and are ready and schedulable.
NodeList read_kubernetes(const std::filesystem::path& file);
// This host's GPUs by NVML, which is loaded by this call. Where there are none, a note gives the reason.
NodeList ask_nvml();
// The same by the CUDA driver, for containers without NVML: the GPUs that CUDA_VISIBLE_DEVICES leaves, without the number
// of their links.
NodeList ask_cuda();
// Facts of this host other than its GPUs, from Linux's files below `root`: RDMA adapters and their rate, sockets, cores,
// memory.
NodeFacts ask_linux(const std::filesystem::path& root);
// This host by NVML, or else by CUDA, and by Linux. No node where neither finds a GPU.
NodeList ask_host();

// The names in "dgx-[001-003,010],login", with leading zeros. Throws InputError at `where`, with the column of the fault.
std::vector<std::string> expand_hostlist(const std::string& text, const Origin& where);

// The name in configs/devices of a GPU as tools print it ("NVIDIA A100-SXM4-80GB", "h100", PCI id "0x2330"); "" if unknown.
std::string device_of_product(const std::string& product);

struct ClusterFile {
  std::string yaml;
  std::vector<std::string> notes;  // what was chosen, and what is not known
};

struct DiscoverRequest {
  NodeList nodes;       // from Slurm or Kubernetes; empty: `count` nodes like `shape`
  NodeList shape;       // one node from NCCL, nvidia-smi or the host, for facts that `nodes` does not state
  int count = 0;        // number of nodes; 0: those of the list, or 1
  std::string device;   // stated by the user
  std::string sources;  // for the file's first line
};

// A cluster file that refers to a cluster of configs/ and states what differs from it. Throws InputError where no device is
// known, or no node has a GPU.
ClusterFile cluster_file(const DiscoverRequest& request);

}  // namespace stepcast::interop
