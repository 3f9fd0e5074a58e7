#include "sweep_conclusion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "../text/format.h"
#include "../words/sentences.h"

namespace stepcast::report {

std::string conclusion(const result::Sweep& s) {
  using result::SweepPoint;
  const SweepPoint* fastest = nullptr;
  const SweepPoint* cheapest = nullptr;
  std::size_t ran = 0;
  std::size_t fit = 0;
  for (const SweepPoint& p : s.points) {
    ran += p.ran ? 1 : 0;
    if (!p.ran || !p.fits) {
      continue;
    }
    ++fit;
    if (fastest == nullptr || p.step_time.value < fastest->step_time.value) {
      fastest = &p;
    }
    if (cheapest == nullptr || p.gpu_hours_per_gigatoken < cheapest->gpu_hours_per_gigatoken) {
      cheapest = &p;
    }
  }
  const std::size_t all = s.points.size();
  if (fastest == nullptr) {
    return fmt::format("None of the {} fits: {} too large, {} impossible.", counted(all, "point"),
                       thousands(static_cast<std::int64_t>(ran - fit)),
                       thousands(static_cast<std::int64_t>(all - ran)));
  }
  const auto named = [](const SweepPoint& p) {
    return fmt::format("{}", fmt::join(p.overrides, " "));
  };
  std::string out =
      fmt::format("{} is the fastest of {}: {} a step at {} MFU", named(*fastest),
                  fit == 1 ? "1 point that fits"
                           : thousands(static_cast<std::int64_t>(fit)) + " points that fit",
                  duration(fastest->step_time.value), percent(fastest->mfu.value));
  constexpr double kWorthNaming = 0.99;
  if (cheapest->gpu_hours_per_gigatoken < kWorthNaming * fastest->gpu_hours_per_gigatoken) {
    out += fmt::format(
        "; {} takes the fewest GPU-hours, {} % less a token", named(*cheapest),
        significant(
            100 * (1 - cheapest->gpu_hours_per_gigatoken / fastest->gpu_hours_per_gigatoken), 2));
  }
  if (fit < all) {
    out += fmt::format("; {} too large, {} impossible",
                       thousands(static_cast<std::int64_t>(ran - fit)),
                       thousands(static_cast<std::int64_t>(all - ran)));
  }
  return out + ".";
}

}  // namespace stepcast::report
