// FLOPs of a product, and the time of a price in seconds.
#pragma once

#include "stepcast/cost/kernels.h"
#include "stepcast/model/operators.h"

namespace stepcast::test {

inline double flops(const model::Gemm& g) {
  return 2.0 * static_cast<double>(g.m * g.batch) * static_cast<double>(g.n) *
         static_cast<double>(g.k);
}

inline double in_seconds(const cost::Priced& p) { return to_seconds(p.time); }

}  // namespace stepcast::test
