// What a plan assumes of a GPU: which types it has, what fits its memory, how fast it is at best.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "stepcast/interop/gpu_measurements.h"
#include "stepcast/job/job.h"

namespace stepcast::harness {

struct Abilities {
  std::string device;             // name in configs/devices of the data sheet
  double compute_capability = 0;  // of an NVIDIA GPU
  bool amd = false;
  std::int64_t memory = 0;            // bytes a process can see
  double memory_bandwidth = 0;        // bytes/s
  double host_bandwidth = 0;          // bytes/s, one way over PCIe or NVLink-C2C
  double peer_bandwidth = 0;          // bytes/s, one way between GPUs
  std::map<job::DType, double> peak;  // FLOP/s
  int gpus = 1;                       // of a node
  int nodes = 1;

  bool has(job::DType dtype) const;
  double peak_of(job::DType dtype) const;  // of the nearest type where the data sheet lacks it
};

Abilities abilities_of(const job::Device& device, int gpus, int nodes);
// The same, with memory as measured and from the data sheet that is most like the GPU.
Abilities abilities_of(const interop::GpuSession& session, int gpus, int nodes);

}  // namespace stepcast::harness
