// Calibration files of collectives: calibration/nccl/<system>.yaml, written by fit_collectives
// (tools/) and `simulate calibrate nccl`.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collective/predict.h"

namespace stepcast::cost {

// Operations in the order of Collective, then a send.
inline constexpr int kOps = kCollectives + 1;
inline constexpr int kSend = kCollectives;
const char* op_name(int op);
int op_of(const std::string& name);  // also by nccl-tests' names; -1: unknown

enum class Scope { domain = 0, network = 1 };

struct SizedFit {
  int size = 0;    // ranks of the domain, or domains of the network
  int points = 0;  // measured at this size; 0: the fit follows from other sizes and machines
  Fit fit;
};

// Relative standard deviations of logs about the curves.
struct Residuals {
  double small = 0;  // below 1 MiB
  double large = 0;  // from 1 MiB on
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
  bool pairs = false;   // NVLink bridges: domains are smaller than the node
  bool pooled = false;  // fitted to a kind of machine, not to one machine
  double nic = 0;       // bytes/s of one NIC port, network scope
  double sockets = 0;   // bytes/s that a node's sockets carry at most; 0: no sockets
  std::string provenance;
  std::vector<std::pair<std::string, std::string>> logs;  // name, source
  std::filesystem::path fits_in;                          // a head: where its fits are read from
  std::vector<SizedFit> fits[kOps];                       // by ascending size
  Residuals residuals[kOps];
};

// The text of a file that read_nccl_files reads.
std::string to_yaml(const NcclFile& file);

// All files of a folder, parsed once per process (thread-safe). A missing folder is an empty list.
std::shared_ptr<const std::vector<NcclFile>> read_nccl_files(
    const std::filesystem::path& calibration_dir);

// The same without the fits of those that are as they were shipped: what a file holds for. A
// forecast uses the fits of two files among some fifty.
std::shared_ptr<const std::vector<NcclFile>> read_nccl_heads(
    const std::filesystem::path& calibration_dir);
// A file with its fits, which are read once per process (thread-safe).
const NcclFile& with_fits(const NcclFile& file);

// Reads a file anew; `name` is NcclFile::file.
NcclFile to_nccl(const std::filesystem::path& path, const std::string& name);

// A file that a job names, parsed once per process (thread-safe); nullptr: it is of another kind
// (kernels). Throws InputError where it cannot be read or is no calibration.
const NcclFile* read_nccl_file(const std::filesystem::path& file);

}  // namespace stepcast::cost
