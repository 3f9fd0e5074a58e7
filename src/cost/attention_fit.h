// Fits the attention law to measured forward times of one kernel.
#pragma once

#include <vector>

#include "attention.h"
#include "gemm_fit.h"

namespace stepcast::cost {

struct AttentionPoint {
  model::AttentionShape shape;
  double seconds = 0;
};

struct AttentionFit {
  AttentionCurve curve;  // fitted to all points; its residual that of the held-out ones
  SizeClass held_out;    // on a quarter that a separate fit did not see
};

// `rate` is a first guess in FLOP/s. Throws std::invalid_argument with fewer than 40 points.
AttentionFit fit_attention(const std::vector<AttentionPoint>& points, double rate,
                           const AttentionDevice& device);

SizeClass errors(const AttentionCurve& curve, const std::vector<AttentionPoint>& points,
                 const AttentionDevice& device);

}  // namespace stepcast::cost
