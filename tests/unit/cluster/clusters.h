// Handmade clusters for tests of several folders, so that these tests need no files.
#pragma once

#include <variant>
#include <vector>

#include "stepcast/cluster/topology.h"
#include "stepcast/job/job.h"

namespace stepcast::test {

// DGX A100: 8 A100 behind NVSwitch, 8 HDR (200 Gb/s) adapters. NVIDIA DGX A100 data sheet.
inline job::Cluster dgx_a100(int nodes) {
  job::Cluster c;
  c.name = "dgx-a100";
  c.nodes = nodes;
  c.device.name = "a100-sxm-80";
  c.device.compute_capability = 8.0;
  c.device.memory_bandwidth = Bandwidth(2039e9);
  c.device.nvlink = Bandwidth(300e9);
  c.device.nvlink_generation = 3;
  c.device.pcie = Bandwidth(31.5e9);
  c.node.name = "dgx-a100";
  c.node.gpus = 8;
  c.node.nics = 8;
  c.node.nic = Bandwidth(25e9);
  c.node.amd_cpu = true;
  return c;
}

// HGX H100: 8 H100 behind NVSwitch with NVLink SHARP, 8 NDR (400 Gb/s) adapters.
inline job::Cluster hgx_h100(int nodes) {
  job::Cluster c = dgx_a100(nodes);
  c.name = "hgx-h100";
  c.device.name = "h100-sxm";
  c.device.compute_capability = 9.0;
  c.device.memory_bandwidth = Bandwidth(3350e9);
  c.device.nvlink = Bandwidth(450e9);
  c.device.nvlink_generation = 4;
  c.device.pcie = Bandwidth(63e9);
  c.node.name = "hgx-h100";
  c.node.nvls = true;
  c.node.nic = Bandwidth(50e9);
  c.node.amd_cpu = false;
  return c;
}

// GB200 NVL72: trays of 4 GPUs, 72 GPUs in one NVLink domain.
inline job::Cluster nvl72(int trays) {
  job::Cluster c = hgx_h100(trays);
  c.name = "gb200-nvl72";
  c.device.name = "gb200";
  c.device.compute_capability = 10.0;
  c.device.nvlink = Bandwidth(900e9);
  c.device.nvlink_generation = 5;
  c.node.name = "gb200-nvl72";
  c.node.gpus = 4;
  c.node.nics = 4;
  c.fabric.kind = job::Fabric::Kind::nvl72;
  c.fabric.nvlink_domain_gpus = 72;
  return c;
}

inline cluster::Topology built(const job::Cluster& c) {
  auto made = cluster::Topology::build(c);
  if (const auto* no = std::get_if<Infeasible>(&made)) {
    throw std::runtime_error(no->key + ": " + no->reason);
  }
  return std::get<cluster::Topology>(std::move(made));
}

// first, first + step, ... (count of them)
inline std::vector<int> every(int first, int step, int count) {
  std::vector<int> slots;
  for (int i = 0; i < count; ++i) {
    slots.push_back(first + i * step);
  }
  return slots;
}

}  // namespace stepcast::test
