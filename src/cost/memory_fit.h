// Fits the law of memory-bound kernels (memory.h) to measured times of one operator.
#pragma once

#include <vector>

#include "gemm_fit.h"
#include "memory.h"

namespace stepcast::cost {

struct MemoryPoint {
  double bytes = 0;  // read and written
  double seconds = 0;
  double row = 0;  // elements of a row that the kernel holds in registers; 0: none
};

struct MemoryFit {
  MemoryCurve curve;   // fitted to all points; its residual is that of the held-out ones
  SizeClass held_out;  // on points that separate fits did not see
  int outliers = 0;
};

// t = fixed + bytes/(share * bandwidth), for tables timed from the host. `bandwidth`: the data
// sheet's. `moved`: with the law of rows (memory.h), for points that state them; 0: without.
// Throws std::invalid_argument with fewer than 20 points.
MemoryFit fit_memory(const std::vector<MemoryPoint>& points, double bandwidth, double moved = 0);

// The law with the ramp at small sizes and the part that stays in an L2 of `l2` bytes, each only
// where it reduces the held-out error; every point is held out once, in four folds. Throws
// std::invalid_argument with fewer than 8 points, or where their sizes do not determine both a
// fixed time and a rate.
MemoryFit fit_memory_sizes(const std::vector<MemoryPoint>& points, double bandwidth, double l2);

}  // namespace stepcast::cost
