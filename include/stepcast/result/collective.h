// One collective over a range of sizes: what `simulate collective` prints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stepcast/result/report.h"

namespace stepcast::result {

struct CollectivePoint {
  std::int64_t bytes = 0;  // as nccl-tests counts them
  Estimate time;           // seconds
  std::string algorithm;   // NCCL's choice: ring, tree, nvls...
  std::string protocol;    // ll, ll128, simple
  double measured = 0;     // seconds; 0: not measured
  bool priced = true;      // false: measured, but not modelled
};

struct CollectiveTable {
  std::string op;  // nccl-tests' name
  std::string cluster;
  std::string type = "float";  // element type and its bytes
  int element_bytes = 4;
  std::string device;               // of the first rank
  std::vector<int> ranks_per_node;  // nodes in order
  std::int64_t min_bytes = 0, max_bytes = 0;
  int factor = 2;
  std::vector<CollectivePoint> points;
};

}  // namespace stepcast::result
