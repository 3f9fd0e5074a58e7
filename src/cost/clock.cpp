#include "clock.h"

#include <cmath>

namespace stepcast::cost {

double clock_relief(double others_over_products, double share, double exponent) {
  const double left = (1 - share) * others_over_products;
  if (left <= 0 || exponent <= 0) {
    return 1;
  }
  // Newton's method: the function grows and bends down, and is below zero at 1.
  const double more = 1 / exponent - 1;
  double r = 1;
  constexpr int kSteps = 8;
  for (int i = 0; i < kSteps; ++i) {
    const double power = std::pow(r, more);
    r -= (power - 1 / r - left) / (more * power / r + 1 / (r * r));
  }
  return r;
}

}  // namespace stepcast::cost
