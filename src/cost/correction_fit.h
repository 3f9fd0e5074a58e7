// Fits a smooth correction over three logarithmic axes by regularised linear least squares:
// measured points against the weighted nodes around them. The differences between neighbouring
// nodes and the nodes' own values are kept small, so that the correction stays smooth between
// points.
#pragma once

#include <array>
#include <vector>

#include "gemm.h"

namespace stepcast::cost {

struct CorrectionSample {
  std::array<double, 3> x;  // above zero
  double want = 0;          // ln(measured/predicted)
};

// `steps`: distance of the nodes on each axis, in log2. The nodes cover the samples' range.
CorrectionGrid fit_correction(const std::vector<CorrectionSample>& samples,
                              const std::array<double, 3>& steps);

}  // namespace stepcast::cost
