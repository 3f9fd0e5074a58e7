// Fitting the achieved times of predict.h to nccl-tests points.
//
// LAW: minimise, over log2 f and the knots of log2 e, the Huber loss of log2(predicted / measured)
// with a penalty on the knots' curvature; Gauss-Newton, the offered line taken as it stands in each
// round; slopes above kSteepest are cut.
#pragma once

#include <vector>

#include "predict.h"
#include "stepcast/cost/nccl_fit.h"

namespace stepcast::cost {

struct Point {
  Offer offer;
  double bytes = 0;
  double seconds = 0;
  int log = 0;  // which log it came from
};

Fit fit_points(const std::vector<Point>& points);

// By size class.
NcclDeviations deviations(const std::vector<Point>& points, const std::vector<double>& predicted);
// Each point predicted by a fit that saw neither it nor its like: whole logs are left out in turn
// where there are several, every fourth point else.
std::vector<double> held_out(const std::vector<Point>& points);

}  // namespace stepcast::cost
