// Medians and quantiles of lists. The rules differ in how they treat a quantile that falls between two values. Each fit and
// report calls the rule that its figures were made with.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace stepcast {

// The mean of the two middle values where their number is even; 0 for an empty list.
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

// The value at index `share` * (n - 1), interpolated linearly between its neighbours (Hyndman and Fan's type 7). `sorted`
// ascends and holds at least one value; likewise below.
inline double interpolated_quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

// The value whose index is nearest to `share` * (n - 1).
inline double nearest_quantile(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(std::lround(share * static_cast<double>(sorted.size() - 1)))];
}

// The value at index n * `percent` / 100, rounded down; the last value for 100.
inline double upper_percentile(const std::vector<double>& sorted, std::size_t percent) {
  return sorted[std::min(sorted.size() - 1, sorted.size() * percent / 100)];
}

// The value at index (n - 1) * `percent` / 100, rounded down.
inline double lower_percentile(const std::vector<double>& sorted, std::size_t percent) {
  return sorted[(sorted.size() - 1) * percent / 100];
}

}  // namespace stepcast
