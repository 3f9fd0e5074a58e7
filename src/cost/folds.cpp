#include "folds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace stepcast::cost {
namespace {

constexpr double kRobustDeviation = 1.4826;  // of a normal distribution over its median |x|
constexpr double kFarOut = 4;                // robust deviations
constexpr double kLeastFarOut = 0.15;

}  // namespace

double median_of(std::vector<double> x) {
  const auto middle = x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2);
  std::nth_element(x.begin(), middle, x.end());
  return *middle;
}

int fold_of(std::initializer_list<std::int64_t> shape) {
  // SplitMix64's finaliser.
  std::uint64_t h = 0;
  for (const std::int64_t v : shape) {
    h += static_cast<std::uint64_t>(v) + 0x9e3779b97f4a7c15ULL;
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ULL;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebULL;
    h ^= h >> 31;
  }
  return static_cast<int>(h % kFolds);
}

void require_law(double deviation, const std::string& of) {
  if (deviation > 1) {
    throw std::invalid_argument(
        fmt::format("{}points scatter about the law by a factor of {:.1f}: is something else "
                    "running, or were two things measured under one name?",
                    of.empty() ? "" : of + ": ", std::exp(deviation)));
  }
}

int count_outliers(const std::vector<double>& log_ratios) {
  if (log_ratios.empty()) {
    return 0;
  }
  const double middle = median_of(log_ratios);
  std::vector<double> off;
  off.reserve(log_ratios.size());
  for (const double r : log_ratios) {
    off.push_back(std::abs(r - middle));
  }
  const double limit = std::max(kLeastFarOut, kFarOut * kRobustDeviation * median_of(off));
  return static_cast<int>(
      std::count_if(off.begin(), off.end(), [limit](double x) { return x > limit; }));
}

}  // namespace stepcast::cost
