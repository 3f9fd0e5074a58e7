// Utilisation of the links during a step. Types only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stepcast::result {

// All links of one class, such as the GPUs' NVLink ports. Utilisation: bytes that cross a link in a step / (capacity x
// step).
struct LinkClass {
  std::string name;  // "NVLink port"
  std::int64_t links = 0;
  double capacity = 0;                    // bytes per second of the slowest link
  double mean_bytes = 0, most_bytes = 0;  // per link and step
  double mean = 0, most = 0;              // utilisation
};

struct NodeLinks {
  int first_stage = 0, last_stage = 0;  // pipeline stages of the ranks on the node
  double inside = 0, outside = 0;       // utilisation of its busiest NVLink (PCIe) port and NIC
};

struct LinkUse {
  std::string fabric;  // "rail_optimized"
  int gpus_per_node = 0, nics_per_node = 0;
  bool nvlink = true;              // between the GPUs of a node; else PCIe
  std::vector<LinkClass> classes;  // from the GPU outwards
  std::vector<NodeLinks> nodes;
};

}  // namespace stepcast::result
