// A plan as one page: the clusters that meet the limits, days against cost, and details of each
// cluster.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "conclusions.h"
#include "expense_words.h"
#include "page_parts.h"
#include "page_plot.h"
#include "plan_words.h"
#include "run_parts.h"
#include "stepcast/base/calendar.h"
#include "stepcast/report/plan.h"
#include "tables.h"

namespace stepcast::report {
namespace {

using result::Estimate;
using result::Plan;
using result::PlannedCluster;

constexpr int kPlanPlotHeight = 320;  // pixels
constexpr double kMillion = 1e6;

std::string facts_of(const Plan& p, const PlannedCluster& c) {
  return fmt::format("{}\n{} nodes of {} ({} GPUs): {} days, {} {}\n{}{}", c.name,
                     thousands(c.nodes), c.device, thousands(c.gpus), significant(c.days.value, 3),
                     money(c.cost.value), p.currency, strategy_line(c),
                     c.meets ? "" : "\n" + lacks_line(c));
}

void add_headline(Page& page, const Plan& p) {
  const auto meet =
      std::count_if(p.clusters.begin(), p.clusters.end(), [](const auto& c) { return c.meets; });
  page.section("best", "At a glance",
               fmt::format("{} tokens {}; sorted by {}, the lowest first.", tokens_text(p.tokens),
                           limits_line(p), p.objective));
  std::vector<Tile> tiles = {number_tile(
      "Clusters", fmt::format("{} of {}", meet, p.clusters.size()), "meet the limits", "meeting",
      static_cast<double>(meet), meet > 0 ? Tile::Tone::good : Tile::Tone::bad)};
  if (meet > 0) {
    const PlannedCluster& c = p.clusters.front();
    tiles.push_back(number_tile(
        "Best", c.name, fmt::format("{} x {}, {}", thousands(c.gpus), c.device, strategy_line(c)),
        "nodes", static_cast<double>(c.nodes)));
    const auto add = [&](const char* name, const Estimate& e, double per, const char* key) {
      tiles.push_back(interval_tile(name, significant(e.value * per, 3), range(e, per, 3), key, e));
    };
    add("Days", c.days, 1, "days");
    const auto& cost = c.cost;
    if (c.priced) {
      tiles.push_back(interval_tile(
          "Cost, " + p.currency, money(cost.value),
          cost.low == cost.high ? "" : fmt::format("{} to {}", money(cost.low), money(cost.high)),
          "cost", cost));
    }
    add("Energy, MWh", c.energy, 1 / kMegawattHour, "energy");
    if (c.carbon) {
      add("Carbon, t CO2e", *c.carbon, 1e-3, "carbon");
    }
  }
  page.add(to_html(tiles));
  if (meet > 0) {
    page.add(strategy_options(p.clusters.front().overrides));
  }
}

// A logarithmic axis with a margin around the values.
PlotAxis ratio_axis(const std::vector<double>& values, const std::string& unit) {
  constexpr double kRoom = 1.15;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  PlotAxis axis{*low / kRoom, *high * kRoom, true, {}, unit};
  constexpr int kLabels = 15;  // 1, 2 and 5 of up to five powers of ten
  axis.labels = round_labels(axis, kLabels);
  return axis;
}

void add_plot(Page& page, const Plan& p) {
  std::vector<double> days, cost;
  for (const PlannedCluster& c : p.clusters) {
    if (c.simulated && c.fits && c.cost.value > 0) {
      days.push_back(c.days.value + c.wait_days);
      cost.push_back(c.cost.value / kMillion);
    }
  }
  if (days.empty()) {
    return;
  }
  const double deadline = p.limits.days, budget = p.limits.budget / kMillion;
  if (deadline > 0) {
    days.push_back(deadline);
  }
  if (budget > 0) {
    cost.push_back(budget);
  }
  const PlotAxis across = ratio_axis(days, "days"), up = ratio_axis(cost, "M");
  page.section("plot", "Days against cost");
  std::vector<Mark> marks = {{"s-2", "meets the limits", ""}, {"s-1", "does not", ""}};
  if (deadline > 0) {
    marks.push_back({"s-3", fmt::format("deadline, {:.4g} days", deadline), ""});
  }
  page.add(legend(marks));
  Plot plot(across, up, kPlanPlotHeight);
  if (deadline > 0) {
    plot.line({{deadline, up.from}, {deadline, up.to}}, "line l-3",
              fmt::format("deadline: {:.4g} days", deadline));
  }
  if (budget > 0) {
    plot.rule(budget, fmt::format("budget, {} M {}", significant(budget, 3), p.currency));
  }
  for (const PlannedCluster& c : p.clusters) {
    if (c.simulated && c.fits && c.cost.value > 0) {
      plot.dot(c.days.value + c.wait_days, c.cost.value / kMillion, c.meets ? "dot l-2" : "dot l-1",
               facts_of(p, c));
    }
  }
  page.add(figure(
      plot.finish("Days against cost, one dot per cluster; the table below has the figures"),
      fmt::format(
          "Horizontal axis: days{}; vertical axis: million {}. Each dot is a cluster with its best "
          "node count and strategy; the table below names them.",
          p.start.empty() ? "" : " from " + p.start, p.currency)));
}

void add_clusters(Page& page, const Plan& p) {
  page.section("clusters", "Clusters",
               fmt::format("Clusters that meet the limits come first, sorted by {}; then the "
                           "others, by how little they miss the limits.",
                           p.objective));
  double most = 0;
  for (const PlannedCluster& c : p.clusters) {
    most = std::max(most, c.cost.high);
  }
  const auto row = [&](const PlannedCluster& c) {
    const std::string cost = fmt::format("{} {} ({} to {})", money(c.cost.value), p.currency,
                                         money(c.cost.low), money(c.cost.high));
    const std::string picture = interval_bar({{c.meets ? "s-2" : "s-1", c.cost.value, cost}},
                                             c.cost.low, c.cost.high, most);
    Record out = cluster_fields(p, c);
    out.push_back({"", if_known(c.simulated, picture), kNoHeading, Show::bar});
    return out;
  };
  Table table = page_table(p.clusters, row,
                           {"cluster",
                            "meets",
                            "nodes",
                            "GPUs",
                            "days",
                            {p.currency, p.currency},
                            {kNoHeading, ""},
                            "MWh",
                            "peak MW",
                            "t CO2e",
                            "MFU",
                            "strategy",
                            "limits that it misses"});
  table.id = "clusters-table";
  table.sortable = true;
  page.add(to_html(table));
}

std::string counts_table(const Plan& p, const PlannedCluster& c) {
  const auto row = [&](const result::PlannedCount& n) -> Record {
    const char* verdict = n.meets ? "meets the limits" : n.fits ? "" : "does not fit";
    return {{"", n.nodes, "nodes", Show::count},
            {"", n.days, "days", Show::three},
            {"", n.cost, p.currency, Show::money},
            {"", n.energy, "MWh", Show::megawatt_hours},
            {"", n.peak_power, "peak MW", Show::megawatts},
            {"", verdict, kNoHeading}};
  };
  Table table = page_table(c.counts, row);
  table.caption = "The best that was simulated on each number of nodes.";
  return to_html(table);
}

void add_each(Page& page, const Plan& p) {
  page.section(
      "each", "Each cluster",
      "How the plan was found, and the figures of the catalogue that it uses, with their sources.");
  for (const PlannedCluster& c : p.clusters) {
    std::string inside;
    if (c.simulated) {
      inside += strategy_options(c.overrides);
      inside += paragraph(fmt::format(
          "A step takes {}; GPUs compute for {} of it and wait for communication for {}; {} of the "
          "wall "
          "clock is training. {} GPU-hours, {} MW on average. {}; {}.",
          duration(c.step_time.value), percent(c.busy), percent(c.communicating),
          percent(c.effective.value), thousands(static_cast<std::int64_t>(c.gpu_hours.value + 0.5)),
          significant(c.average_power * 1e-6, 3),
          c.bought ? fmt::format("{}: {}; bought for {}", p.currency, expense_words(c.expenses),
                                 money(c.capital))
                   : "Rented",
          proof_line(c)));
      inside += counts_table(p, c);
    }
    inside += to_html(page_table(c.figures, catalogue_fields));
    page.add(details(
        fmt::format("{}{}{}", c.name, c.meets ? "" : ": ", c.meets ? "" : lacks_line(c)), inside));
  }
}

}  // namespace

std::string html(const Plan& p) {
  Page page("Plan", p.title);
  page.lead(conclusion(p));
  add_headline(page, p);
  add_plot(page, p);
  add_clusters(page, p);
  add_each(page, p);
  page.foot(fmt::format("Prices and power: catalogue {}; failures: {}.", p.catalogue,
                        p.operations.empty() ? "none" : "operations " + p.operations));
  return page.finish();
}

}  // namespace stepcast::report
