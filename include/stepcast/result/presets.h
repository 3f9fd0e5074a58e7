// What configs/ offers, with the figures by which one chooses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stepcast/base/quantity.h"

namespace stepcast::result {

struct ModelPreset {
  std::string name;
  double parameters = 0, active = 0;  // active: that a token uses
  int layers = 0;
  std::int64_t hidden = 0;
  int heads = 0, kv_heads = 0;
  int experts = 0, top_k = 0;  // 0: a dense model
  std::int64_t vocab = 0;
};

struct DevicePreset {
  std::string name;
  Bytes memory;
  Bandwidth memory_bandwidth;
  FlopRate bf16, fp8;  // dense peaks; 0: not offered
  Bandwidth nvlink;    // per direction
  Power power;
  std::string kernels;  // what their times rest on: "measured", "as h100-sxm" or "data sheet"
};

struct ClusterPreset {
  std::string name, device;
  int gpus = 0;    // of a node
  int domain = 0;  // GPUs that share NVLink or its like
  std::string fabric;
  int nics = 0;
  Bandwidth nic;  // one NIC, per direction
};

struct JobPreset {
  std::string name, model, cluster, system;
  int gpus = 0;
  std::int64_t tokens = 0;  // of a step
};

struct SchedulePreset {
  std::string name, summary;
};

}  // namespace stepcast::result
