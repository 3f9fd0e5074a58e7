#include "harness/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>

namespace stepcast::harness {

double quantile(const std::vector<double>& sorted, double fraction) {
  const double place = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  const double share = place - static_cast<double>(below);
  return sorted[below] + share * (sorted[above] - sorted[below]);
}

interop::Timing summarize(std::vector<double> seconds) {
  if (seconds.empty()) {
    throw std::runtime_error("the device returned no sample");
  }
  for (const double s : seconds) {
    if (!std::isfinite(s) || s <= 0) {
      throw std::runtime_error("the device returned a time that is not positive");
    }
  }
  std::sort(seconds.begin(), seconds.end());
  return {.median = quantile(seconds, 0.5),
          .p10 = quantile(seconds, 0.1),
          .p90 = quantile(seconds, 0.9),
          .samples = static_cast<int>(seconds.size())};
}

bool is_wide(const interop::Timing& time) {
  constexpr double kWide = 1.25;
  return time.p90 > kWide * time.p10;
}

}  // namespace stepcast::harness
