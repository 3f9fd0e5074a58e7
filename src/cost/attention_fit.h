// Fits the attention law to measured times of one kernel.
#pragma once

#include <optional>
#include <vector>

#include "attention.h"
#include "gemm_fit.h"

namespace stepcast::cost {

struct AttentionPoint {
  model::AttentionShape shape;
  double seconds = 0;
  bool paged = true;  // in a fit of an inference engine's table: this point is from that table
};

struct AttentionFit {
  AttentionCurve curve;  // fitted to all points; its residual is that of the held-out ones
  SizeClass held_out;    // on a quarter that a separate fit did not see
};

// `rate` is a first guess in FLOP/s. `paged`: times of an inference engine, which include writing
// keys and values into its cache. Throws std::invalid_argument with fewer than 40 points.
AttentionFit fit_attention(const std::vector<AttentionPoint>& points, double rate,
                           const AttentionDevice& device, bool paged = false);

SizeClass errors(const AttentionCurve& curve, const std::vector<AttentionPoint>& points,
                 const AttentionDevice& device);

struct PassFit {
  AttentionPass pass;
  SizeClass held_out;  // every point once, in four folds
  int outliers = 0;
};

// One pass by itself: the shape-dependent correction is fitted with 40 points or more. Throws
// std::invalid_argument with fewer than 16, or where their lengths do not determine both a fixed
// time and a rate.
PassFit fit_pass(const std::vector<AttentionPoint>& points, bool backward, double rate,
                 const AttentionDevice& device, bool paged = false);

// The backward pass of a kernel whose forward pass is known: the ratio of the rates, and parameters
// of its own where they predict unseen points better.
struct BackwardFit {
  double ratio = 0;
  SizeClass ratio_held_out;
  std::optional<PassFit> own;  // absent: too few points
  bool own_is_better = false;
};

// Throws std::invalid_argument with fewer than 4 points.
BackwardFit fit_backward(const AttentionPass& forward, const std::vector<AttentionPoint>& points,
                         const AttentionDevice& device);

}  // namespace stepcast::cost
