// What the whole run takes, as a section of the forecast's page.
#include <fmt/format.h>

#include "page_parts.h"
#include "run_parts.h"
#include "stepcast/base/calendar.h"

namespace stepcast::report {

using result::Estimate;

Table figures_table(const std::vector<result::PlanFigure>& figures) {
  Table table;
  table.columns = {text_column("figure"), number_column("value"), text_column("unit"),
                   prose_column("source")};
  for (const result::PlanFigure& f : figures) {
    table.rows.push_back({f.name, Cell(fmt::format("{:.6g}", f.value), f.value), f.unit, f.source});
  }
  return table;
}

void add_run(Page& page, const std::optional<result::RunCost>& run) {
  if (!run) {
    return;
  }
  const result::RunCost& r = *run;
  page.section(
      "run", "The whole run",
      fmt::format(
          "{} tokens; {}.{}", tokens_text(r.tokens),
          r.operations.empty()
              ? std::string("nothing fails")
              : fmt::format(
                    "{} of the wall clock trains (failures and checkpoints of operations {})",
                    percent(r.effective.value), r.operations),
          r.at_least ? " At least, as the step." : ""));
  std::vector<Tile> tiles;
  const auto tile = [&](const char* name, const std::string& value, const Estimate& e,
                        const char* figure, double per) {
    tiles.push_back({name,
                     value,
                     e.low == e.high ? ""
                                     : fmt::format("{} to {}", significant(e.low * per),
                                                   significant(e.high * per)),
                     figure,
                     {e.value, e.low, e.high}});
  };
  tile("Time to train, days", significant(r.days.value), r.days, "run_days", 1);
  tile("GPU-hours, thousands", significant(r.gpu_hours.value * 1e-3), r.gpu_hours, "run_gpu_hours",
       1e-3);
  if (r.energy) {
    tile("Energy, MWh", significant(r.energy->value / kMegawattHour), *r.energy, "run_energy",
         1 / kMegawattHour);
    tiles.push_back({"Power, MW",
                     significant(r.average_power * 1e-6, 3),
                     significant(r.peak_power * 1e-6, 3) + " at the peak",
                     "run_average_power",
                     {r.average_power}});
  }
  if (r.cost) {
    tile(("Cost, thousand " + r.currency).c_str(), significant(r.cost->value * 1e-3), *r.cost,
         "run_cost", 1e-3);
  }
  if (r.carbon) {
    tile("Carbon, t CO2e", significant(r.carbon->value * 1e-3), *r.carbon, "run_carbon", 1e-3);
  }
  page.add(to_html(tiles));
  if (!r.energy) {
    page.add(paragraph("No energy: " + r.no_energy + "."));
    return;
  }
  page.add(
      details(fmt::format("Power and prices: offer {} of the catalogue {}", r.offer, r.catalogue),
              to_html(figures_table(r.figures))));
}

}  // namespace stepcast::report
