// A plan for people: the clusters that meet the limits, the best first, and what the others lack.
#include "stepcast/report/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "fit_words.h"
#include "plan_words.h"
#include "run_parts.h"
#include "stepcast/base/calendar.h"
#include "tables.h"

namespace stepcast::report {
namespace {

using result::Estimate;
using result::Plan;
using result::PlannedCluster;

std::string table_of(const Plan& p, bool meeting, const Paint& paint, int width) {
  std::vector<Record> rows;
  for (const PlannedCluster& c : p.clusters) {
    if (c.meets == meeting && c.simulated) {
      rows.push_back(cluster_fields(p, c));
    }
  }
  const Captions columns = {
      "cluster", "nodes",   "GPUs",   "days", {p.currency, p.currency},
      "MWh",     "peak MW", "t CO2e", "MFU",  meeting ? "strategy" : "limits that it misses"};
  return rows.empty() ? "" : text_table(rows.front(), rows, columns).text(paint, width);
}

// All facts of the first cluster.
std::string best_of(const Plan& p, const PlannedCluster& c, const Paint& paint, int width) {
  std::string out = paint("1", c.name) + "\n";
  const auto line = [&](const std::string& text) { out += item(text, width); };
  line(fmt::format("{} nodes of {} ({} of {}{})", thousands(c.nodes), c.cluster, thousands(c.gpus),
                   c.device, c.available.empty() ? "" : ", available since " + c.available));
  line(fmt::format("--set {}", fmt::join(c.overrides, " --set ")));
  line(fmt::format(
      "a step takes {}; {} of {} GiB of memory (fits: {}); GPUs compute for {} of it and wait for "
      "communication for {}",
      duration(c.step_time.value), gibibytes(c.peak_memory.value),
      gibibytes(static_cast<double>(c.capacity.count())), fit_words(c.fits), percent(c.busy),
      percent(c.communicating)));
  line(fmt::format("{}{}", with_range(c.days, 1, " days"),
                   p.operations.empty()
                       ? ", no failures"
                       : fmt::format(", of which {} is training (rates of failures: {})",
                                     percent(c.effective.value), p.operations)));
  const std::string parts =
      c.bought ? fmt::format(": depreciation {}, electricity {}; bought for {}",
                             money(c.depreciation), money(c.electricity), money(c.capital))
               : ": rent";
  const auto between = [](const Estimate& e) {
    return fmt::format("{} ({} to {})", money(e.value), money(e.low), money(e.high));
  };
  line(c.priced ? fmt::format("{} {}{}; {} GPU-hours", between(c.cost), p.currency, parts,
                              between(c.gpu_hours))
                : fmt::format("no price is known (rent: yours to fill in); {} GPU-hours",
                              between(c.gpu_hours)));
  line(fmt::format("{}; {} MW on average, {} MW at the peak{}",
                   with_range(c.energy, 1 / kMegawattHour, " MWh"),
                   significant(c.average_power * 1e-6, 3), significant(c.peak_power * 1e-6, 3),
                   c.carbon ? "; " + with_range(*c.carbon, 1e-3, " t CO2e") : ""));
  if (!c.basis.empty()) {
    line("the step rests on " + basis_line(c));
  }
  line(proof_line(c));
  return out;
}

// By which curves each step was priced, and what has no price.
std::string bases_of(const Plan& p, const Paint& paint, int width) {
  std::string out;
  for (const PlannedCluster& c : p.clusters) {
    if (!c.basis.empty()) {
      out += item(c.name + ": " + basis_line(c), width, 4);
    }
  }
  if (!out.empty()) {
    out = "\n" + paint("1", "What the steps rest on") + "\n" + out;
  }
  for (const PlannedCluster& c : p.clusters) {
    if (!c.priced) {
      out += item(c.name + ": no price is known; put yours into a copy of the catalogue", width, 4);
    }
  }
  return out;
}

}  // namespace

std::string terminal(const Plan& p, bool colour, int width) {
  const Paint paint{colour};
  std::string out = paint("1", p.title) + "\n";
  out += item(fmt::format("{} tokens {}; sorted by {}, the lowest first; prices and power: {}",
                          tokens_text(p.tokens), limits_line(p), p.objective, p.catalogue),
              width);
  const std::string meeting = table_of(p, true, paint, width);
  out += meeting.empty() ? "\n  no cluster of the catalogue meets the limits\n" : "\n" + meeting;
  if (!p.clusters.empty() && p.clusters.front().meets) {
    out += "\n" + best_of(p, p.clusters.front(), paint, width);
  }
  const std::string missing = table_of(p, false, paint, width);
  if (!missing.empty()) {
    out += "\n" + paint("1", "Clusters that miss the limits, the nearest first") + "\n" + missing;
  }
  for (const PlannedCluster& c : p.clusters) {
    if (!c.simulated) {
      out += item(c.name + ": " + c.shortfalls.front().text, width, 4);
    }
  }
  out += bases_of(p, paint, width);
  const auto open = std::count_if(p.clusters.begin(), p.clusters.end(),
                                  [](const auto& c) { return c.simulated && !c.proven; });
  if (open > 0) {
    out +=
        fmt::format("\n  for {} of the clusters a better strategy may exist: raise --runs\n", open);
  }
  return out;
}

}  // namespace stepcast::report
