// Fits the coefficients of lower/slowdown.h to kernels timed beside a collective.
#pragma once

#include <optional>
#include <vector>

#include "calibration_file.h"
#include "stepcast/cost/kernel_fit.h"

namespace stepcast::cost {

// Speed lost, 1 - 1/stretch, in proportion to the share taken.
struct Coefficient {
  double value = 0;
  double residual = 0;  // relative standard deviation of the extra time, stretch - 1, held out
  double median = 0;    // of |predicted/measured - 1| of the kernel's time, held out
  double p95 = 0;
  int points = 0;
};

// Of kernels of one kind. Throws std::invalid_argument with fewer than 4 samples beside which
// something was taken.
Coefficient fit_overlap(const std::vector<OverlapSample>& samples, bool memory_bound, int sms);

// What the collective loses, over all samples.
Coefficient fit_collective_loss(const std::vector<OverlapSample>& samples);

}  // namespace stepcast::cost
