// Results of `simulate validate` (and, in the same shape, of `collective --compare` and `kernels --compare`).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/result/report.h"

namespace stepcast::result {

struct ValidationRow {
  std::string id, source, file;
  std::string metric;  // step_time | throughput | mfu | hfu | peak_memory | steady_memory | layer_time | ...
  bool primary = true;
  std::optional<int> stage, rank;
  // ok | skipped | oom: the run ran, and its forecast does not fit | open: likewise, but it fits with full recomputation,
  // and the source does not state how much was recomputed.
  std::string status = "ok";
  double published = 0, predicted = 0, low = 0, high = 0, error = 0;  // SI units; error relative
  std::optional<std::string> reason;
  bool accepted = false;            // skipped for a reason that is on the committed list
  double step = 0;                  // forecast of the step in seconds, by which rates are converted
  double deviations = 0;            // (published - predicted) / standard deviation of the forecast
  std::vector<std::string> open{};  // facts that the row does not state
  std::vector<PathShare> path{};    // critical path of the forecast, seconds by category
  // Relative standard deviation of the forecast by kind of doubt; of memory: of assumed keys alone.
  std::vector<std::pair<std::string, double>> doubts{};
  std::vector<std::pair<std::string, double>> bytes{};  // of memory: by part
  std::string system{};                                 // training system of the job
  std::string why{};                                    // where the forecast's time goes, and its largest doubt
};

struct ValidationSummary {
  std::string file, metric;
  int rows = 0, simulated = 0;
  double median = 0, mean = 0, bias = 0, p90 = 0;
  std::string worst_id;
  double worst = 0;
  double coverage = 0, half_width = 0, interval_score = 0;
  int accepted = 0;    // rows skipped for a reason on the committed list
  int unmeasured = 0;  // rows without a measured value
  // Every other skipped row counted as the worst error.
  double median_of_all = 0, mean_of_all = 0, p90_of_all = 0;
  // Simulated rows over rows that could be simulated: all but those skipped for an accepted reason.
  double simulated_share() const {
    const int possible = rows - accepted - unmeasured;
    return possible > 0 ? static_cast<double>(simulated) / possible : 1;
  }
};

// A reason that rows were left out: a kind from the committed list, or one that is not accepted.
struct SkipCount {
  std::string kind, meaning;
  bool accepted = true;
  int rows = 0;
};

struct Validation {
  std::vector<ValidationRow> rows;
  std::vector<ValidationSummary> summary;
  std::vector<SkipCount> skips{};  // the committed list, in its order
  std::vector<Fault> faults{};     // of runs whose jobs cannot be read: bad input, and not rows that the program refuses
};

}  // namespace stepcast::result
