// Fits t = latency + bytes/bandwidth to measured copies of one kind.
#pragma once

#include <vector>

#include "calibration_file.h"
#include "gemm_fit.h"
#include "stepcast/cost/kernel_fit.h"

namespace stepcast::cost {

double copy_seconds(const CopyCurve& curve, double bytes);

struct CopyFit {
  CopyCurve curve;     // fitted to all points; its residual is that of the held-out ones
  SizeClass held_out;  // every point once, in four folds
  int outliers = 0;
};

// Throws std::invalid_argument with fewer than 6 sizes, or where they do not determine both a
// latency and a bandwidth.
CopyFit fit_copy(const std::vector<CopySample>& samples);

}  // namespace stepcast::cost
