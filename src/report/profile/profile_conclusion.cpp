#include "profile_conclusion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "../text/format.h"

namespace stepcast::report {
namespace {

// Parts of a profiled step, the largest first.
std::vector<std::pair<double, const char*>> parts_of(const result::TraceShare& s) {
  const double span = std::max(1e-12, to_seconds(s.span));
  std::vector<std::pair<double, const char*>> out = {
      {to_seconds(s.compute) / span, "compute"},
      {to_seconds(s.communication) / span, "exposed communication"},
      {to_seconds(s.copy) / span, "exposed copies"},
      {to_seconds(s.host_bound) / span, "waiting for the host's launches"},
      {to_seconds(s.idle) / span, "idle"}};
  std::stable_sort(out.begin() + 1, out.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  return out;
}

}  // namespace

std::string conclusion(const result::TraceProfile& p) {
  for (const result::TraceRank& r : p.ranks) {
    for (const result::TraceDevice& d : r.devices) {
      result::TraceShare sum;
      for (const result::TraceStep& s : d.steps) {
        sum.span += s.share.span;
        sum.compute += s.share.compute;
        sum.communication += s.share.communication;
        sum.copy += s.share.copy;
        sum.host_bound += s.share.host_bound;
        sum.idle += s.share.idle;
      }
      const auto n = static_cast<double>(std::max<std::size_t>(1, d.steps.size()));
      const result::TraceShare& all = d.steps.empty() ? d.share : sum;
      if (all.span == Time(0)) {
        continue;
      }
      const auto parts = parts_of(all);
      std::vector<std::string> named;
      constexpr double kWorthNaming = 0.01;
      for (std::size_t i = 1; i < parts.size() && named.size() < 3; ++i) {
        if (parts[i].first >= kWorthNaming) {
          named.push_back(fmt::format("{:.0f} % {}", 100 * parts[i].first, parts[i].second));
        }
      }
      std::string out =
          fmt::format("{}{}: {:.0f} % of it computes", duration(to_seconds(all.span) / n),
                      d.steps.empty() ? " of profile" : " a step", 100 * parts[0].first);
      if (!named.empty()) {
        out += fmt::format(", {}", fmt::join(named, ", "));
      }
      if (p.ranks.size() > 1) {
        out += fmt::format(" (the first of {} ranks)", p.ranks.size());
      }
      return out + ".";
    }
  }
  return "No device did anything in this profile.";
}

std::string conclusion(const result::Explanation& e) {
  const double step = e.step_time.value;
  std::string out = fmt::format("{} a step, {} to {} in nine of ten cases", duration(step),
                                duration(e.step_time.low), duration(e.step_time.high));
  if (e.measured) {
    const double gap = step > 0 ? e.measured->seconds / step - 1 : 0;
    out = fmt::format(
        "The measured {} is {} {} the forecast of {}, {}", duration(e.measured->seconds),
        percent(std::abs(gap)), gap < 0 ? "below" : "above", duration(step),
        e.measured->inside ? "inside its interval: they agree"
                           : fmt::format("{:.1f} deviations off: more than the forecast's doubts",
                                         std::abs(e.measured->deviations)));
  }
  for (const result::TraceExplanation& p : e.profiles) {
    if (!p.rows.empty()) {
      const result::TraceDifference& d = p.rows.front();
      const double by = to_seconds(d.measured) - to_seconds(d.forecast);
      out = fmt::format(
          "The profiled step takes {} and the forecast {}; the largest difference is "
          "{} {} ({}{})",
          duration(to_seconds(p.measured)), duration(to_seconds(p.forecast)), d.phase, d.what,
          by < 0 ? "-" : "+", duration(std::abs(by)));
      break;
    }
  }
  if (!e.doubts.empty()) {
    out += fmt::format("; the largest doubt is '{}' ({} of the variance)",
                       e.doubts.front().doubt.name, percent(e.doubts.front().variance));
  }
  return out + ".";
}

}  // namespace stepcast::report
