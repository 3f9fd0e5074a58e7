// Why a profiled step differs from its forecast.
#pragma once

#include <optional>

#include "stepcast/result/report.h"
#include "stepcast/result/trace.h"

namespace stepcast::trace {

// The mean step of `rank` beside that of stage `stage` of a forecast with its trace (Report::trace), phase by phase: kernels
// by kind, exposed communication by operation and size of the group, copies, host and idle time. The differences add up to
// that of the step; the largest comes first. Nothing where there is no such stage or no device.
std::optional<result::TraceExplanation> explain(const result::TraceRank& rank, const result::Report& report, int stage);

// What of a step does not depend on when others arrive, forecast and measured, for fitting: sums of products (gemm,
// grouped_gemm, attention) without and with communication beside them, seconds.
struct ProductSeconds {
  double alone = 0, beside = 0;
};
std::optional<ProductSeconds> forecast_products(const result::Report& report, int stage);
// Of each compared step of the busiest device.
std::vector<ProductSeconds> measured_products(const result::TraceRank& rank);

// One collective by operation, size of group and bytes, in a forecast: seconds of one call.
struct TransferSeconds {
  std::string operation;
  int group_size = 0;
  std::int64_t bytes = 0;
  std::int64_t count = 0;
  double transfer = 0;  // without waiting, the mean
  double fast = 0;      // what the fastest quarter stays below, waiting included, as a profile of one rank shows it
};
std::vector<TransferSeconds> forecast_transfers(const result::Report& report, int stage);

// The mean compared step of the busiest device, and how much it varies: relative standard deviation of a step; 0 where there
// are fewer than three.
struct StepSeconds {
  double mean = 0, deviation = 0;
  int steps = 0;
  double host = 0;  // nothing runs, and what runs next is not launched yet
};
std::optional<StepSeconds> measured_step(const result::TraceRank& rank);

}  // namespace stepcast::trace
