#include "harness/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>

#include "stepcast/base/statistics.h"

namespace stepcast::harness {

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
  return {.median = interpolated_quantile(seconds, 0.5),
          .p10 = interpolated_quantile(seconds, 0.1),
          .p90 = interpolated_quantile(seconds, 0.9),
          .samples = static_cast<int>(seconds.size())};
}

bool is_wide(const interop::Timing& time) {
  constexpr double kWide = 1.25;
  return time.p90 > kWide * time.p10;
}

}  // namespace stepcast::harness
