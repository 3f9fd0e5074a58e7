#include "folds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "stepcast/base/splitmix.h"
#include "stepcast/base/statistics.h"

namespace stepcast::cost {
namespace {

constexpr double kRobustDeviation = 1.4826;  // of a normal distribution over its median |x|
constexpr double kOutlierDeviations = 4;     // outliers are further out, in robust deviations
constexpr double kMinOutlierDistance = 0.15;

}  // namespace

std::uint64_t shape_hash(std::initializer_list<std::int64_t> numbers) {
  std::uint64_t h = 0;
  for (const std::int64_t v : numbers) {
    h = splitmix(h + static_cast<std::uint64_t>(v) + kSplitMixStep);
  }
  return h;
}

int fold_of(std::initializer_list<std::int64_t> shape) {
  return static_cast<int>(shape_hash(shape) % kFolds);
}

void require_law(double deviation, const std::string& of) {
  if (deviation > 1) {
    throw std::invalid_argument(
        fmt::format("{}points scatter about the fit by a factor of {:.1f}: was something else "
                    "running, or do different measurements have one name?",
                    of.empty() ? "" : of + ": ", std::exp(deviation)));
  }
}

int count_outliers(const std::vector<double>& log_ratios) {
  if (log_ratios.empty()) {
    return 0;
  }
  const double middle = upper_median(log_ratios);
  std::vector<double> off;
  off.reserve(log_ratios.size());
  for (const double r : log_ratios) {
    off.push_back(std::abs(r - middle));
  }
  const double limit =
      std::max(kMinOutlierDistance, kOutlierDeviations * kRobustDeviation * upper_median(off));
  return static_cast<int>(
      std::count_if(off.begin(), off.end(), [limit](double x) { return x > limit; }));
}

}  // namespace stepcast::cost
