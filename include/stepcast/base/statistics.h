// Middles and quantiles of lists. The rules differ where a list has no value at the place asked for, and each fit and
// report names the one that it uses: its figures depend on it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
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

// The upper of the two middle values where their number is even. At least one value.
inline double upper_median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Between the two values beside place `share` * (n - 1), by linear interpolation (Hyndman and Fan's type 7). Ascending,
// at least one.
inline double interpolated_quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

// The value nearest to place `share` * (n - 1). Ascending, at least one.
inline double nearest_quantile(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(std::lround(share * static_cast<double>(sorted.size() - 1)))];
}

// The value at place n * `percent` / 100, rounded down, and the last for 100. Ascending, at least one.
inline double upper_percentile(const std::vector<double>& sorted, std::size_t percent) {
  return sorted[std::min(sorted.size() - 1, sorted.size() * percent / 100)];
}

// The value at place (n - 1) * `percent` / 100, rounded down. Ascending, at least one.
inline double lower_percentile(const std::vector<double>& sorted, std::size_t percent) {
  return sorted[(sorted.size() - 1) * percent / 100];
}

}  // namespace stepcast
