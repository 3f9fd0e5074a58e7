// Achieved times from NCCL's lines.
//
// LAW: t(S) = min over offered lines i of  f * L_i + S / (B_i * e(x)),   x = log2(S / (B* L*)),
// with B* the best bandwidth and L* the least latency among the lines (in a what-if, as measure_by
// has it). f (latency factor) and log2
// e (achieved share of NCCL's bandwidth, piecewise linear in x, ends constant) come from a fit
// (fit.h) to nccl-tests logs; without one f = 1 and e is flat. log2 e rises by at most 0.66 per
// unit of x and a tree's correction by 0.33, so t rises with S; a minimum of continuous rising
// curves is continuous and rising. The bytes' part of a line is never below its floor: no port
// beats its line rate, whatever e says.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "line.h"

namespace stepcast::cost {

// The lines of one operation on one group that NCCL may choose from.
struct Offer {
  std::array<Line, 24> lines;
  int count = 0;
  double best_bandwidth = 0;
  double least_latency = 0;
  void add(const Line& line);
  // Bytes at which x is 0: B* L*.
  double axis() const;
};

struct Allowed {
  int algorithm = -1;  // index in algorithms(); -1: any
  int protocol = -1;
  unsigned algorithms = ~0U;  // bit per index
  unsigned protocols = ~0U;
  unsigned named = 0;  // algorithms that a job names, which are offered even where NCCL would not
};
Offer offer(const Situation& s, Collective op, Allowed allowed);
// A what-if: puts each line on the axis of the same line at the rates at which the machine was
// measured, stretched by what the line has gained. So a line that the rates do not limit takes as
// long as before, and no line takes longer at a higher rate, since log2 e rises by less than 1.
// Under a limit of its channels, each carries at most what one carries at the measured rates, where
// all of them together fill the link: NCCL cuts another link into other channels, but what limits
// one is its thread block.
struct Channels {
  double left = 1;             // of this offer's bandwidths, under the limit
  double left_measured = 1;    // of the measured ones
  std::optional<double> most;  // the limit, in measured channels
};
void measure_by(Offer& offer, const Offer& measured, const Channels& channels);
// The line that NCCL's own model chooses.
const Line& choose(const Offer& o, const Situation& s, Collective op, double bytes);

// Knots of log2 e at x = kFirst, kFirst + kStep, ...
inline constexpr int kKnots = 15;
inline constexpr double kFirst = -12;
inline constexpr double kStep = 2;
inline constexpr double kSteepest = 0.66;

struct Fit {
  double latency = 1;                       // f
  std::array<double, kKnots> log2_share{};  // log2 e
};
// Interpolates between fits of two group sizes.
Fit mix(const Fit& a, const Fit& b, double weight_of_b);
double log2_share(const Fit& fit, double x);
struct KnotWeight {
  int low = 0;      // the lower of the two knots
  double high = 0;  // weight of the upper one, low + 1
};
KnotWeight knot_weight(double x);

struct Predicted {
  double latency = 0;  // seconds
  double fluid = 0;
  double total() const { return latency + fluid; }
};
Predicted predict(const Offer& o, const Fit& fit, double bytes);

}  // namespace stepcast::cost
