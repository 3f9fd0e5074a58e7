// Calibration files of collectives: calibration/nccl/<system>.yaml, written by fit_collectives
// (tools/).
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "collective/predict.h"

namespace stepcast::cost {

// Collective's order, then a send.
inline constexpr int kOps = kCollectives + 1;
inline constexpr int kSend = kCollectives;
const char* op_name(int op);
int op_of(const std::string& name);  // -1: none; nccl-tests' names too

enum class Scope { domain = 0, network = 1 };

struct SizedFit {
  int size = 0;  // ranks of the domain, or domains of the network
  Fit fit;
  double small_residual = 0;  // relative standard deviation below 1 MiB
  double large_residual = 0;  // and from 1 MiB on
};

struct NcclFile {
  std::string file;  // name relative to the calibration folder
  std::string system;
  Scope scope = Scope::domain;
  std::vector<std::string> devices;
  std::vector<std::string> nodes;    // node and cluster names (network scope)
  std::vector<std::string> fabrics;  // fabric names of the same kind
  double compute_capability = 0;
  bool nvlink = false;
  double nic = 0;  // bytes/s of one NIC port, network scope
  std::string provenance;
  std::vector<SizedFit> fits[kOps];  // rising size
};

// All files of a folder, parsed once per process (thread-safe). A missing folder is an empty list.
std::shared_ptr<const std::vector<NcclFile>> read_nccl_files(
    const std::filesystem::path& calibration_dir);

}  // namespace stepcast::cost
