// Fitting the achieved times of predict.h to nccl-tests points.
//
// LAW: log2 f and the knots of log2 e are a sum of shifts, from what all machines share down to one
// group size of one system (pool.h). A shift minimises the Huber loss of log2(predicted / measured)
// on top of the shifts above it, with a penalty on its size, slope and curvature (a Gaussian prior
// about zero); Gauss-Newton, the offered line taken as it stands in each round. Slopes of a sum
// above kSteepest are cut.
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
Fit fit_of(const Shift& shift);  // slopes cut

// A point as one shift sees it.
struct Seen {
  const Point* point = nullptr;
  const Shift* base = nullptr;  // shifts above
  double reach = 1;             // share of the shift that holds for this point
  double weight = 1;            // of the point beside others
};

// Expected sizes (standard deviations, log2 units) of a shift.
struct Prior {
  double latency = 1;
  double share = 1;   // of a knot
  double slope = 1;   // first difference of knots
  double bend = 0.6;  // second difference
};
Shift fit_shift(const std::vector<Seen>& seen, const Prior& prior);

// Of predicted / measured.
NcclDeviations deviations(const std::vector<const Point*>& points,
                          const std::vector<double>& predicted);

// Where a point lies on the knots.
double knot_position(const Offer& offer, double bytes);

}  // namespace stepcast::cost
