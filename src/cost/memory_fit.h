// Fits t = fixed + bytes/(share * bandwidth) to measured times of one memory-bound operator.
#pragma once

#include <vector>

#include "calibration_file.h"
#include "gemm_fit.h"

namespace stepcast::cost {

struct MemoryPoint {
  double bytes = 0;  // read and written
  double seconds = 0;
};

struct MemoryFit {
  MemoryCurve curve;   // fitted to all points; its residual that of the held-out ones
  SizeClass held_out;  // on a quarter that a separate fit did not see
};

// `bandwidth`: the data sheet's. Throws std::invalid_argument with fewer than 20 points.
MemoryFit fit_memory(const std::vector<MemoryPoint>& points, double bandwidth);

}  // namespace stepcast::cost
