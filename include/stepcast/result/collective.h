// Result of `simulate collective`: one collective operation over a range of sizes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stepcast/result/report.h"

namespace stepcast::result {

struct CollectivePoint {
  std::int64_t bytes = 0;  // as nccl-tests counts them
  Estimate time;           // seconds
  std::string algorithm;   // chosen as NCCL chooses: ring, tree, nvls...
  std::string protocol;    // ll, ll128, simple
  double measured = 0;     // seconds; 0: not measured
  bool priced = true;      // false: measured, but the model has no time for it
};

struct CollectiveTable {
  std::string op;  // nccl-tests' name
  std::string cluster;
  std::string type = "float";  // element type and its bytes
  int element_bytes = 4;
  std::string device;               // of the first rank
  std::vector<int> ranks_per_node;  // in the order of the nodes
  std::int64_t min_bytes = 0, max_bytes = 0;
  int factor = 2;
  std::vector<CollectivePoint> points;
  std::vector<std::string> notes;  // curves that were measured at another rate
};

}  // namespace stepcast::result
