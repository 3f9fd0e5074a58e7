#include "plan_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "../run/run_parts.h"

namespace stepcast::report {

using result::Plan;
using result::PlannedCluster;
using result::Shortfall;

// The sizes of a strategy that are not 1.
std::string strategy_line(const PlannedCluster& c) {
  std::string out;
  for (const std::string& text : c.overrides) {
    const std::size_t equals = text.find('=');
    const std::string key = text.substr(0, equals), value = text.substr(equals + 1);
    if (key.starts_with("cluster.") || value == "1" || value == "[]" || value == "none" ||
        key.ends_with("_as_layer")) {
      continue;
    }
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", key.substr(key.rfind('.') + 1), value);
  }
  return out.empty() ? "data parallel" : out;
}

bool price_is_unverified(const PlannedCluster& c) {
  return std::any_of(c.figures.begin(), c.figures.end(), [](const result::PlanFigure& f) {
    return (f.name == "rent" || f.name == "purchase") &&
           f.source.find("unverified") != std::string::npos;
  });
}

std::string basis_line(const PlannedCluster& c) {
  constexpr double kLeast = 0.02;  // share of the step that is worth a word
  std::string out;
  for (const result::PlanBasis& b : c.basis) {
    if (b.share < kLeast) {
      continue;
    }
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ",
                       b.file == "datasheet" ? "the data sheet" : b.file, percent(b.share));
    if (b.residual > 0) {
      out += fmt::format(" (+-{})", percent(b.residual));
    }
  }
  return out;
}

std::string limits_line(const Plan& p) {
  std::vector<std::string> parts;
  if (p.limits.days > 0) {
    parts.push_back(fmt::format("{:.4g} days", p.limits.days) +
                    (p.start.empty() ? "" : " from " + p.start));
  }
  if (p.limits.budget > 0) {
    parts.push_back(fmt::format("{} {}", money(p.limits.budget), p.currency));
  }
  if (p.limits.watts > 0) {
    parts.push_back(significant(p.limits.watts * 1e-6, 3) + " MW");
  }
  return parts.empty() ? "no limits" : fmt::format("within {}", fmt::join(parts, ", "));
}

std::string lacks_line(const PlannedCluster& c) {
  std::vector<std::string> lacks;
  for (const Shortfall& s : c.shortfalls) {
    lacks.push_back(s.text);
  }
  return fmt::format("{}", fmt::join(lacks, "; "));
}

std::string proof_line(const PlannedCluster& c) {
  return c.proven
             ? fmt::format(
                   "no other strategy and node count of the space is better: {} node counts, {} "
                   "bounds, {} engine runs",
                   c.counts_possible, thousands(c.bounded), c.engine_runs)
         : c.gap > 0
             ? fmt::format("not proven: another strategy may be up to {} better ({} engine runs)",
                           percent(c.gap), c.engine_runs)
             : fmt::format("not proven: another strategy may be better ({} engine runs)",
                           c.engine_runs);
}

}  // namespace stepcast::report
