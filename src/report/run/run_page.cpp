// The resources of the whole run, as a section of the forecast's page.
#include <fmt/format.h>

#include "../page/page_parts.h"
#include "../record/tables.h"
#include "run_parts.h"
#include "stepcast/base/calendar.h"

namespace stepcast::report {

using result::Estimate;

void add_run(Page& page, const std::optional<result::RunCost>& run) {
  if (!run) {
    return;
  }
  const result::RunCost& r = *run;
  page.section("run", "The whole run",
               fmt::format("{} tokens; {}.{}", tokens_text(r.tokens),
                           r.operations.empty()
                               ? std::string("no failures")
                               : fmt::format("goodput {} (failures, checkpoints: operations/{})",
                                             percent(r.effective.value), r.operations),
                           r.at_least ? " A lower bound, since the step time is one." : ""));
  std::vector<Tile> tiles;
  const auto tile = [&](const std::string& name, const Estimate& e, const char* figure,
                        double per) {
    tiles.push_back(interval_tile(name, significant(e.value * per), range(e, per), figure, e));
  };
  tile("Time to train, days", r.days, "run_days", 1);
  tile("GPU-hours, thousands", r.gpu_hours, "run_gpu_hours", 1e-3);
  if (r.energy) {
    tile("Energy, MWh", *r.energy, "run_energy", 1 / kMegawattHour);
    tiles.push_back(number_tile("Power, MW", significant(r.average_power * 1e-6, 3),
                                significant(r.peak_power * 1e-6, 3) + " at the peak",
                                "run_average_power", r.average_power));
  }
  if (r.cost) {
    tile("Cost, thousand " + r.currency, *r.cost, "run_cost", 1e-3);
  }
  if (r.carbon) {
    tile("Carbon, t CO2e", *r.carbon, "run_carbon", 1e-3);
  }
  page.add(to_html(tiles));
  if (!r.energy) {
    page.add(paragraph("No energy: " + r.no_energy + "."));
    return;
  }
  page.add(
      details(fmt::format("Power and prices: offer {} of the catalogue {}", r.offer, r.catalogue),
              to_html(page_table(r.figures, catalogue_fields))));
}

}  // namespace stepcast::report
