// Results of `simulate validate` (and, in the same shape, of `collective --compare` and `kernels --compare`).
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace stepcast::result {

struct ValidationRow {
  std::string id, source, file;
  std::string metric;  // step_time | throughput | mfu | hfu | peak_memory | steady_memory | layer_time | ...
  bool primary = true;
  std::optional<int> stage, rank;
  std::string status = "ok";                                          // ok | skipped | oom
  double published = 0, predicted = 0, low = 0, high = 0, error = 0;  // SI units; error relative
  std::optional<std::string> reason;
};

struct ValidationSummary {
  std::string file, metric;
  int rows = 0, simulated = 0;
  double median = 0, mean = 0, bias = 0, p90 = 0;
  std::string worst_id;
  double worst = 0;
  double coverage = 0, half_width = 0, interval_score = 0;
};

struct Validation {
  std::vector<ValidationRow> rows;
  std::vector<ValidationSummary> summary;
};

}  // namespace stepcast::result
