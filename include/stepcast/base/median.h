// The middle of a list.
#pragma once

#include <algorithm>
#include <vector>

namespace stepcast {

// The mean of the two middle values where their number is even; 0 of none.
inline double median(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

}  // namespace stepcast
