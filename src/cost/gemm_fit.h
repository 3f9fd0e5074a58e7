// Fits a GEMM law to measured points: Levenberg-Marquardt for the physics, then regularised least
// squares for the smooth correction. Residuals are errors on held-out points.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "gemm.h"

namespace stepcast::cost {

struct GemmPoint {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  double seconds = 0;
};

struct SizeClass {
  int points = 0;
  double median = 0;  // of |predicted/measured - 1|
  double p95 = 0;
  double deviation = 0;  // standard deviation of ln(predicted/measured), of the inner 98 %
};

// Held-out errors by FLOPs of the GEMM: below 1, 1 to 10, 10 to 100, above 100 GFLOP; then all of
// at least 1 GFLOP.
using SizeClasses = std::array<SizeClass, 5>;

struct GemmFit {
  GemmLaw law;           // fitted to all points
  SizeClasses held_out;  // on a quarter that a separate fit did not see
  // The same where the separate fit did not see a quarter of the weights' shapes (n, k) at any m.
  SizeClasses held_out_weights;
};

struct ElementBytes {
  double in = 2, out = 2;
};

// `start` gives the SMs, the data sheet's bandwidth, and first guesses of the rest. Throws
// std::invalid_argument with fewer than 40 points.
GemmFit fit_gemm(const std::vector<GemmPoint>& points, const GemmLaw& start, ElementBytes element);

// The error of a law on points, by size class.
SizeClasses errors(const GemmLaw& law, const std::vector<GemmPoint>& points, ElementBytes element);

// Statistics of ln(predicted/measured).
SizeClass summary(std::vector<double> log_ratios);

// Whether a point belongs to the held-out quarter: by a hash of its shape, so that every run holds
// out the same.
bool is_held_out(const GemmPoint& p);
// The same by a hash of n and k alone.
bool is_weight_held_out(const GemmPoint& p);

}  // namespace stepcast::cost
