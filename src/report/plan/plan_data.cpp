// A plan as JSON and CSV, and the fields that all its forms share.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "../record/tables.h"
#include "../run/run_parts.h"
#include "../text/format.h"
#include "../words/fit_words.h"
#include "plan_conclusion.h"
#include "plan_words.h"
#include "stepcast/base/calendar.h"
#include "stepcast/report/plan.h"

namespace stepcast::report {
namespace {

using result::Plan;
using result::PlannedCluster;

Record shortfall_fields(const result::Shortfall& s) {
  return {{"limit", to_string(s.limit)}, {"by", s.by}, {"text", s.text}};
}

Record planned_count_fields(const result::PlannedCount& n) {
  return {{"nodes", n.nodes},
          {"fits", fit_value(n.fits)},
          {"meets", n.meets},
          {"days", n.days},
          {"cost", n.cost},
          {"energy", n.energy},
          {"peak_power", n.peak_power}};
}

Record basis_fields(const result::PlanBasis& b) {
  return {
      {"file", b.file}, {"share", b.share}, {"residual", b.residual}, {"provenance", b.provenance}};
}

// Fields of a cluster on which a strategy was simulated.
Record simulated_fields(const PlannedCluster& c) {
  return {
      {"nodes", c.nodes},
      {"gpus", c.gpus},
      {"overrides", c.overrides},
      {"step_time", c.step_time},
      {"mfu", c.mfu},
      {"bubble_fraction", c.bubble_fraction},
      {"memory",
       object({{"capacity", c.capacity}, {"fits", fit_value(c.fits)}, {"peak", c.peak_memory}})},
      {"busy", c.busy},
      {"communicating", c.communicating},
      {"effective", c.effective},
      {"wait_days", c.wait_days},
      {"days", c.days},
      {"gpu_hours", c.gpu_hours},
      {"cost", if_known(c.priced, c.cost)},
      {"rent", if_known(c.priced, c.expenses.rent)},
      {"depreciation", c.expenses.depreciation},
      {"interest", c.expenses.interest},
      {"electricity", c.expenses.electricity},
      {"colocation", c.expenses.colocation},
      {"staff", c.expenses.staff},
      {"capital", c.capital},
      {"energy", c.energy},
      {"average_power", c.average_power},
      {"peak_power", c.peak_power},
      {"carbon", c.carbon},
      {"objective", c.objective}};
}

Record plan_json_fields(const PlannedCluster& c) {
  Record out = {{"name", c.name},
                {"cluster", c.cluster},
                {"device", c.device},
                {"site", c.site},
                {"available", text_or_null(c.available)},
                {"nodes_offered", c.nodes_offered},
                {"bought", c.bought},
                {"meets", c.meets},
                {"simulated", c.simulated},
                {"shortfalls", rows(c.shortfalls, shortfall_fields)}};
  if (c.simulated) {
    append(out, simulated_fields(c));
  }
  append(out, {{"counts", rows(c.counts, planned_count_fields)},
               {"search", object({{"counts_possible", c.counts_possible},
                                  {"bounded", c.bounded},
                                  {"engine_runs", c.engine_runs},
                                  {"proven", c.proven},
                                  {"gap", c.gap}})},
               {"figures", rows(c.figures, catalogue_fields)},
               {"basis", rows(c.basis, basis_fields)}});
  return out;
}

Record plan_csv_fields(const PlannedCluster& c) {
  const auto known = [&](Value value) { return if_known(c.simulated, std::move(value)); };
  const auto priced = [&](double cost) { return if_known(c.simulated && c.priced, cost); };
  const Value carbon = c.carbon ? Value(c.carbon->value * 1e-3) : Value();
  return {{"name", c.name},
          {"cluster", c.cluster},
          {"device", c.device},
          {"site", c.site},
          {"available", c.available},
          {"meets", c.meets},
          {"nodes", known(c.nodes)},
          {"gpus", known(c.gpus)},
          {"step_time_s", known(c.step_time.value)},
          {"mfu", known(c.mfu)},
          {"fits", known(c.fits.fits)},
          {"fits_probability", known(c.fits.probability)},
          {"effective", known(c.effective.value)},
          {"days", known(c.days.value)},
          {"days_low", known(c.days.low)},
          {"days_high", known(c.days.high)},
          {"gpu_hours", known(c.gpu_hours.value)},
          {"cost", priced(c.cost.value)},
          {"cost_low", priced(c.cost.low)},
          {"cost_high", priced(c.cost.high)},
          {"energy_mwh", known(c.energy.value / kMegawattHour)},
          {"average_power_mw", known(c.average_power * 1e-6)},
          {"peak_power_mw", known(c.peak_power * 1e-6)},
          {"carbon_t", known(carbon)},
          {"proven", c.proven},
          {"lacks", lacks_line(c)},
          {"overrides", fmt::format("{}", fmt::join(c.overrides, " "))}};
}

}  // namespace

std::string json(const Plan& p) {
  const auto limit = [](double value) { return if_known(value > 0, value); };
  return json_of({{"schema", kFitSchema},
                  {"conclusion", conclusion(p)},
                  {"title", p.title},
                  {"objective", p.objective},
                  {"catalogue", p.catalogue},
                  {"currency", p.currency},
                  {"operations", text_or_null(p.operations)},
                  {"start", text_or_null(p.start)},
                  {"tokens", p.tokens},
                  {"limits", object({{"days", limit(p.limits.days)},
                                     {"budget", limit(p.limits.budget)},
                                     {"power", limit(p.limits.watts)}})},
                  {"clusters", blocks(p.clusters, plan_json_fields)}});
}

std::string csv(const Plan& p) {
  return csv_of(plan_csv_fields({}), records(p.clusters, plan_csv_fields));
}

Record cluster_fields(const Plan& p, const PlannedCluster& c) {
  const auto known = [&](Value value) { return if_known(c.simulated, std::move(value)); };
  return {
      {"", c.name, "cluster", Show::text, fmt::format("{} of {}, {}", c.cluster, c.device, c.site)},
      {"", c.meets, "meets", Show::yes_no, "", !c.meets},
      {"", known(c.nodes), "nodes", Show::count},
      {"", known(c.gpus), "GPUs", Show::count},
      {"", known(c.days), "days", Show::three},
      {"", if_known(c.simulated && c.priced, c.cost), p.currency, Show::money},
      {"", known(c.energy), "MWh", Show::megawatt_hours},
      {"", known(c.peak_power), "peak MW", Show::megawatts},
      {"", known(c.carbon), "t CO2e", Show::tonnes},
      {"", known(c.mfu), "MFU", Show::percent},
      {"", known(strategy_line(c)), "strategy", Show::prose},
      {"", lacks_line(c), "limits that it misses", Show::prose}};
}

}  // namespace stepcast::report
