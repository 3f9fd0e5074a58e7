// Fits the achieved times of predict.h to nccl-tests points.
//
// LAW: log2 f and the knots of log2 e are a sum of shifts, from one that all machines share down to
// one for a group size of one system (pool.h). A shift minimises the Huber loss of log2(predicted /
// measured) on top of the shifts above it, with a penalty on its size, slope and curvature (a
// Gaussian prior about zero). Gauss-Newton; each round keeps the line that is the fastest at its
// start. Slopes of the sum are limited to kSteepest.
#pragma once

#include <array>
#include <vector>

#include "predict.h"
#include "stepcast/cost/nccl_fit.h"

namespace stepcast::cost {

struct Point {
  Offer offer;
  double bytes = 0;
  double seconds = 0;
};

// log2 of a latency factor, then of achieved shares at the knots.
inline constexpr int kParameters = kKnots + 1;
using Shift = std::array<double, kParameters>;
Fit fit_of(const Shift& shift);  // slopes are limited to kSteepest

// A point in the fit of one shift.
struct Seen {
  const Point* point = nullptr;
  const Shift* base = nullptr;  // sum of the shifts above
  double reach = 1;             // factor of the shift at this point
  double weight = 1;            // weight of the point in the fit
};

// Prior standard deviations of a shift, in log2 units.
struct Prior {
  double latency = 1;
  double share = 1;   // value at a knot
  double slope = 1;   // first difference of knots
  double bend = 0.6;  // second difference
};
Shift fit_shift(const std::vector<Seen>& seen, const Prior& prior);

// Statistics of predicted / measured.
NcclDeviations deviations(const std::vector<const Point*>& points,
                          const std::vector<double>& predicted);

// The point's x, on the axis of the knots.
double knot_position(const Offer& offer, double bytes);

}  // namespace stepcast::cost
