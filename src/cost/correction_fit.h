// A smooth correction over three logarithmic axes by regularised linear least squares: measured
// points against the weighted nodes around them, with the differences between neighbouring nodes
// and the nodes themselves held small, so that gaps between points are bridged, not invented.
#pragma once

#include <array>
#include <vector>

#include "gemm.h"

namespace stepcast::cost {

struct CorrectionSample {
  std::array<double, 3> x;  // above zero
  double want = 0;          // ln(measured/predicted)
};

// `steps`: of the nodes in log2, by axis. Nodes cover the samples' range.
CorrectionGrid fit_correction(const std::vector<CorrectionSample>& samples,
                              const std::array<double, 3>& steps);

}  // namespace stepcast::cost
