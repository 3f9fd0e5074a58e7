// A plan for people: the clusters that meet the limits, the best first, and what the others lack.
#include <fmt/format.h>

#include <algorithm>

#include "../record/tables.h"
#include "../run/expense_words.h"
#include "../run/run_parts.h"
#include "../text/format.h"
#include "../words/fit_words.h"
#include "../words/sentences.h"
#include "plan_conclusion.h"
#include "plan_words.h"
#include "stepcast/base/calendar.h"
#include "stepcast/report/plan.h"

namespace stepcast::report {
namespace {

using result::Estimate;
using result::Plan;
using result::PlannedCluster;

std::string table_of(const Plan& p, bool meeting, bool bought, const Paint& paint, int width) {
  std::vector<Record> rows;
  bool chips = false;
  for (const PlannedCluster& c : p.clusters) {
    if (c.meets == meeting && c.bought == bought && c.simulated) {
      rows.push_back(cluster_fields(p, c));
      chips = chips || c.chips;
    }
  }
  const Captions columns = {"cluster",
                            "nodes",
                            {"GPUs", chips ? "GPUs or chips" : "GPUs"},
                            "days",
                            {p.currency, p.currency},
                            "MWh",
                            "peak MW",
                            "t CO2e",
                            "MFU",
                            meeting ? "strategy" : "limits that it misses"};
  return rows.empty() ? ""
                      : paint("1", bought ? "To buy" : "To rent") + "\n" +
                            text_table(rows.front(), rows, columns).text(paint, width);
}

// What is rented and what is bought, one table each: a price of the one is none of the other.
std::string tables_of(const Plan& p, bool meeting, const Paint& paint, int width) {
  const std::string rented = table_of(p, meeting, false, paint, width);
  const std::string bought = table_of(p, meeting, true, paint, width);
  return rented + (rented.empty() || bought.empty() ? "" : "\n") + bought;
}

// What owning costs beside the machines and their electricity, as the catalogue assumes it; and
// prices that nobody verified.
std::string price_notes(const Plan& p, int width) {
  std::string out;
  bool unverified = false;
  for (const PlannedCluster& c : p.clusters) {
    unverified = unverified || price_is_unverified(c);
    std::string owning;
    for (const result::PlanFigure& f : c.figures) {
      if (c.bought && (f.name == "utilisation" || f.name == "interest" || f.name == "colocation" ||
                       f.name == "staff" || f.name == "lifetime")) {
        owning += fmt::format("{}{} {:.4g}{}", owning.empty() ? "" : ", ", f.name, f.value,
                              f.unit.empty() ? "" : " " + f.unit);
      }
    }
    if (!owning.empty() && out.empty()) {
      out = item("owned clusters assume: " + owning, width);
    }
  }
  return out +
         (unverified ? item("prices are unverified: check before buying or renting", width) : "");
}

// All facts of the first cluster.
std::string best_of(const Plan& p, const PlannedCluster& c, const Paint& paint, int width) {
  std::string out = paint("1", c.name) + "\n";
  const auto line = [&](const std::string& text) { out += item(text, width); };
  line(fmt::format("{} nodes of {} ({} of {}{})", thousands(c.nodes), c.cluster, thousands(c.gpus),
                   c.device, c.available.empty() ? "" : ", available since " + c.available));
  if (!c.overrides.empty()) {
    line(set_options(c.overrides));
  }
  const char* unit = c.chips ? "chip" : "GPU";
  line(fmt::format(
      "a step takes {}; {} of {} GiB of memory (fits: {}); {}s compute for {} of it and wait for "
      "communication for {}",
      duration(c.step_time.value), gibibytes(c.peak_memory.value),
      gibibytes(static_cast<double>(c.capacity.count())), fit_words(c.fits), unit, percent(c.busy),
      percent(c.communicating)));
  line(fmt::format("{}{}", with_range(c.days, 1, " days"),
                   p.operations.empty()
                       ? ", no failures"
                       : fmt::format(", goodput {} (failures, checkpoints: operations/{})",
                                     percent(c.effective.value), p.operations)));
  const std::string parts =
      c.bought ? fmt::format(": {}; bought for {}", expense_words(c.expenses), money(c.capital))
               : ": rent";
  const auto between = [](const Estimate& e) {
    return fmt::format("{} ({} to {})", money(e.value), money(e.low), money(e.high));
  };
  line(c.priced ? fmt::format("{} {}{}; {} {}-hours", between(c.cost), p.currency, parts,
                              between(c.gpu_hours), unit)
                : fmt::format("no price is known (rent: yours to fill in); {} {}-hours",
                              between(c.gpu_hours), unit));
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
  std::string out = opening(paint, conclusion(p), p.title, width);
  out += item(fmt::format("{} tokens {}; sorted by {}, the lowest first; prices and power: {}",
                          tokens_text(p.tokens), limits_line(p), p.objective, p.catalogue),
              width);
  out += price_notes(p, width);
  const std::string meeting = tables_of(p, true, paint, width);
  out += meeting.empty() ? "\n  no cluster of the catalogue meets the limits\n" : "\n" + meeting;
  for (const bool bought : {false, true}) {
    const auto best = std::find_if(p.clusters.begin(), p.clusters.end(),
                                   [&](const auto& c) { return c.meets && c.bought == bought; });
    if (best != p.clusters.end()) {
      out += "\n" + best_of(p, *best, paint, width);
    }
  }
  const std::string missing = tables_of(p, false, paint, width);
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
