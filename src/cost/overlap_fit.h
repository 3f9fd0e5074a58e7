// Fits the coefficients of lower/passes/slowdown.h to kernels timed beside a collective.
#pragma once

#include <optional>
#include <vector>

#include "calibration_file.h"
#include "stepcast/cost/kernel_fit.h"

namespace stepcast::cost {

// The speed lost, 1 - 1/stretch, over the share taken.
struct Coefficient {
  double value = 0;
  double residual = 0;  // relative standard deviation of the extra time, stretch - 1, held out
  double median = 0;    // of |predicted/measured - 1| of the kernel's time, held out
  double p95 = 0;
  int points = 0;
};

// The coefficient of compute-bound or memory-bound kernels. Throws std::invalid_argument with fewer
// than 4 samples in which the collective takes a share.
Coefficient fit_overlap(const std::vector<OverlapSample>& samples, bool memory_bound, int sms);

// The share of its speed that the collective loses, over all samples.
Coefficient fit_collective_loss(const std::vector<OverlapSample>& samples);

}  // namespace stepcast::cost
