// A plan for people: which clusters meet the limits, the cheapest first, and what the others lack.
#include "stepcast/report/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "plan_words.h"
#include "run_parts.h"
#include "stepcast/base/calendar.h"
#include "text_table.h"

namespace stepcast::report {
namespace {

using result::Estimate;
using result::Plan;
using result::PlannedCluster;

std::string span(const Estimate& e, double factor, const char* unit) {
  return fmt::format("{}{} ({} to {})", significant(e.value * factor, 3), unit,
                     significant(e.low * factor, 3), significant(e.high * factor, 3));
}

std::string table_of(const Plan& p, bool meeting, const Paint& paint, int width) {
  using Align = TextTable::Align;
  TextTable table({{"cluster", Align::left},
                   {"nodes"},
                   {"GPUs"},
                   {"days"},
                   {p.currency},
                   {"MWh"},
                   {"peak MW"},
                   {"t CO2e"},
                   {"MFU"},
                   {meeting ? "strategy" : "what it lacks", Align::left}});
  int rows = 0;
  for (const PlannedCluster& c : p.clusters) {
    if (c.meets != meeting || !c.simulated) {
      continue;
    }
    table.row({c.name, thousands(c.nodes), thousands(c.gpus), significant(c.days.value, 3),
               money(c.cost.value),
               thousands(static_cast<std::int64_t>(c.energy.value / kMegawattHour + 0.5)),
               significant(c.peak_power * 1e-6, 3),
               c.carbon ? thousands(static_cast<std::int64_t>(c.carbon->value * 1e-3 + 0.5)) : "",
               percent(c.mfu), meeting ? strategy_line(c) : lacks_line(c)});
    ++rows;
  }
  return rows > 0 ? table.text(paint, width) : "";
}

// The first cluster in full.
std::string best_of(const Plan& p, const PlannedCluster& c, const Paint& paint, int width) {
  std::string out = paint("1", c.name) + "\n";
  const auto line = [&](const std::string& text) { out += "  " + wrap(text, width, 2) + "\n"; };
  line(fmt::format("{} nodes of {} ({} of {}{})", thousands(c.nodes), c.cluster, thousands(c.gpus),
                   c.device, c.available.empty() ? "" : ", available since " + c.available));
  line(fmt::format("--set {}", fmt::join(c.overrides, " --set ")));
  line(
      fmt::format("a step takes {}; {} of {} GiB of memory; GPUs compute {} of it and wait in "
                  "communication {}",
                  duration(c.step_time.value), gibibytes(c.peak_memory.value),
                  gibibytes(static_cast<double>(c.capacity.count())), percent(c.busy),
                  percent(c.communicating)));
  line(fmt::format("{}{}", span(c.days, 1, " days"),
                   p.operations.empty() ? ", nothing fails"
                                        : fmt::format(", of which {} trains (operations: {})",
                                                      percent(c.effective.value), p.operations)));
  const std::string parts =
      c.bought ? fmt::format(": depreciation {}, electricity {}; bought for {}",
                             money(c.depreciation), money(c.electricity), money(c.capital))
               : ": rent";
  const auto between = [](const Estimate& e) {
    return fmt::format("{} ({} to {})", money(e.value), money(e.low), money(e.high));
  };
  line(fmt::format("{} {}{}; {} GPU-hours", between(c.cost), p.currency, parts,
                   between(c.gpu_hours)));
  line(fmt::format("{}; {} MW on average, {} MW at the peak{}",
                   span(c.energy, 1 / kMegawattHour, " MWh"),
                   significant(c.average_power * 1e-6, 3), significant(c.peak_power * 1e-6, 3),
                   c.carbon ? "; " + span(*c.carbon, 1e-3, " t CO2e") : ""));
  line(proof_line(c));
  return out;
}

}  // namespace

std::string terminal(const Plan& p, bool colour, int width) {
  const Paint paint{colour};
  std::string out = paint("1", p.title) + "\n";
  out += "  " +
         wrap(fmt::format("{} tokens {}; the least {} first; prices and power: {}",
                          tokens_text(p.tokens), limits_line(p), p.objective, p.catalogue),
              width, 2) +
         "\n";
  const std::string meeting = table_of(p, true, paint, width);
  out += meeting.empty() ? "\n  no cluster of the catalogue meets the limits\n" : "\n" + meeting;
  if (!p.clusters.empty() && p.clusters.front().meets) {
    out += "\n" + best_of(p, p.clusters.front(), paint, width);
  }
  const std::string missing = table_of(p, false, paint, width);
  if (!missing.empty()) {
    out += "\n" + paint("1", "Nearest of the others") + "\n" + missing;
  }
  for (const PlannedCluster& c : p.clusters) {
    if (!c.simulated) {
      out += "  " + wrap(c.name + ": " + c.shortfalls.front().text, width, 4) + "\n";
    }
  }
  const auto open = std::count_if(p.clusters.begin(), p.clusters.end(),
                                  [](const auto& c) { return c.simulated && !c.proven; });
  if (open > 0) {
    out += fmt::format("\n  {} of them not proven to be their cluster's best: more --runs\n", open);
  }
  return out;
}

}  // namespace stepcast::report
