// Reads what is printed above a table of nccl-tests: the devices, and the sizes that follow.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "nccl_line.h"

namespace stepcast::interop {

// The list of devices: "#  Rank  3 Group  0 Pid 12 on host1 device  3 [0x1a] NVIDIA H100 80GB
// HBM3".
class Devices {
 public:
  void read(std::string_view line);

  // Ranks of each node; empty: the list is not complete. Several nodes may have the same name
  // (containers): a device that occurs again is on another node.
  std::vector<int> per_node() const;
  // Names of GPUs, each once, in order of appearance.
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::string> hosts_;  // in order of appearance
  std::map<std::string, std::map<int, int>, std::less<>> ranks_;
  std::vector<std::string> names_;
  int listed_ = 0;
  int highest_ = -1;
};

// The sizes announced by "# nThread 1 nGpus 8 minBytes 8 maxBytes 1024 step: 2(factor)".
class Promise {
 public:
  void read(std::string_view line);
  // Whether another size must follow `last`. Sharded operations round sizes down, so after a size
  // just below the largest there may be none.
  bool goes_on(std::int64_t last) const;
  std::int64_t most() const { return most_; }

 private:
  std::int64_t most_ = 0;
  double factor_ = 0;
  std::int64_t step_ = 0;
};

}  // namespace stepcast::interop
