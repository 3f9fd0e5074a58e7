// Fitting the achieved times of predict.h to nccl-tests points.
//
// LAW: minimise, over log2 f and the knots of log2 e, the Huber loss of log2(predicted / measured)
// with a penalty on the knots' curvature; Gauss-Newton, the offered line taken as it stands in each
// round; slopes above kSteepest are cut.
#pragma once

#include <vector>

#include "predict.h"

namespace stepcast::cost {

struct Point {
  Offer offer;
  double bytes = 0;
  double seconds = 0;
  int log = 0;  // which log it came from
};

Fit fit_points(const std::vector<Point>& points);

// Relative standard deviation of predicted / measured - 1 (from logarithms), and medians; by size
// class.
struct Deviation {
  int points = 0;
  double spread = 0;  // standard deviation of ln(predicted / measured), about zero
  double median = 0;  // of |predicted / measured - 1|
  double bias = 0;    // median of predicted / measured - 1
  double worst = 0;
};
struct Deviations {
  Deviation small;  // below 1 MiB
  Deviation large;
};
Deviations deviations(const std::vector<Point>& points, const std::vector<double>& predicted);
// Each point predicted by a fit that saw neither it nor its like: whole logs are left out in turn
// where there are several, every fourth point else.
std::vector<double> held_out(const std::vector<Point>& points);

}  // namespace stepcast::cost
