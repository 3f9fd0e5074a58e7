#include "plan_conclusion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "../text/format.h"
#include "../words/sentences.h"
#include "plan_words.h"

namespace stepcast::report {
namespace {

using result::PlannedCluster;

std::string offer(const result::Plan& p, const PlannedCluster& c) {
  std::string out =
      fmt::format("{} {} of {} ({} {}): {} days", c.bought ? "buy" : "rent",
                  counted(static_cast<std::size_t>(c.nodes), "node"), c.name, thousands(c.gpus),
                  c.chips ? "chips" : "GPUs", significant(c.days.value, 3));
  if (c.priced) {
    out += fmt::format(", {} {}", money(c.cost.value), p.currency);
    // A purchase is used for more than this run.
    out += c.bought ? fmt::format(" for this run, {} {} to buy", money(c.capital), p.currency) : "";
  }
  return out + (price_is_unverified(c) ? " (price unverified: check it)" : "");
}

// Share of the seconds that follow from curves above which they are "most" of them: more than all
// other curves together.
constexpr double kMajority = 0.5;

// Whether most of what follows from curves follows from the device's data sheet.
bool unmeasured(const PlannedCluster& c) {
  return std::any_of(c.basis.begin(), c.basis.end(), [](const result::PlanBasis& b) {
    return b.file == "datasheet" && b.share > kMajority;
  });
}

// A winner that rests on a data sheet stands beside the best that rests on measurements.
std::string doubt(const result::Plan& p, const PlannedCluster& best) {
  if (!unmeasured(best)) {
    return "";
  }
  std::string out = fmt::format(" Most kernels of {} were not measured: {} to {} days", best.device,
                                significant(best.days.low, 3), significant(best.days.high, 3));
  const auto measured =
      std::find_if(p.clusters.begin(), p.clusters.end(), [&](const PlannedCluster& c) {
        return c.meets && c.bought == best.bought && !unmeasured(c);
      });
  if (measured != p.clusters.end()) {
    out += "; of measured devices the best is to " + offer(p, *measured);
  }
  return out + ".";
}

std::string missed(const result::Shortfall& s) {
  return s.limit == result::PlanLimit::deadline
             ? fmt::format("{} days too late", significant(s.by, 2))
             : s.text;
}

}  // namespace

std::string conclusion(const result::Plan& p) {
  const auto meeting = static_cast<std::size_t>(
      std::count_if(p.clusters.begin(), p.clusters.end(), [](const auto& c) { return c.meets; }));
  if (meeting == 0) {
    const auto near = std::find_if(p.clusters.begin(), p.clusters.end(),
                                   [](const auto& c) { return c.simulated; });
    std::string out =
        fmt::format("None of the {} meets the limits", counted(p.clusters.size(), "offer"));
    if (near != p.clusters.end() && !near->shortfalls.empty()) {
      out += fmt::format("; {} comes nearest: {}", near->name, missed(near->shortfalls.front()));
    }
    return out + ".";
  }
  std::vector<std::string> best;
  std::string doubts;
  for (const bool bought : {false, true}) {
    const auto found = std::find_if(p.clusters.begin(), p.clusters.end(),
                                    [&](const auto& c) { return c.meets && c.bought == bought; });
    if (found != p.clusters.end()) {
      best.push_back(offer(p, *found));
      doubts += doubt(p, *found);
    }
  }
  std::string out = fmt::format("{}; {} of {} within the limits.", fmt::join(best, ", or "),
                                meeting, counted(p.clusters.size(), "offer"));
  out.front() = best.front().front() == 'b' ? 'B' : 'R';
  return out + doubts;
}

}  // namespace stepcast::report
