#include "goodput_conclusion.h"

#include <fmt/format.h>

#include <algorithm>

#include "../text/format.h"
#include "stepcast/base/calendar.h"

namespace stepcast::report {

std::string conclusion(const result::Goodput& g) {
  std::string out =
      fmt::format("Training is {} of {} days", percent(g.effective.value), significant(g.days, 4));
  const auto largest =
      std::max_element(g.losses.begin(), g.losses.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (largest != g.losses.end() && largest->second > 0) {
    out += fmt::format("; most of the rest is {} ({})", largest->first, percent(largest->second));
  }
  const double every = g.mean_time_between_failures;
  if (g.interruptions.value > 0) {
    out += fmt::format("; a failure interrupts it every {}",
                       every < 2 * kDay ? significant(every / kHour, 3) + " hours"
                                        : significant(every / kDay, 3) + " days");
  }
  if (g.training_days.value > 0) {
    out += fmt::format("; all tokens take {} days", significant(g.training_days.value, 3));
  }
  return out + ".";
}

}  // namespace stepcast::report
