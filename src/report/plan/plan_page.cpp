// A plan as one page: the clusters that meet the limits, days against cost, and details of each
// cluster.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "../page/page_parts.h"
#include "../page/page_plot.h"
#include "../record/tables.h"
#include "../run/expense_words.h"
#include "../run/run_parts.h"
#include "../text/format.h"
#include "plan_conclusion.h"
#include "plan_words.h"
#include "stepcast/base/calendar.h"
#include "stepcast/report/plan.h"

namespace stepcast::report {
namespace {

using result::Estimate;
using result::Plan;
using result::PlannedCluster;

constexpr int kPlanPlotHeight = 320;  // pixels
constexpr double kMillion = 1e6;

std::string facts_of(const Plan& p, const PlannedCluster& c) {
  return fmt::format("{}\n{} nodes of {} ({} {}): {} days, {} {}\n{}{}", c.name, thousands(c.nodes),
                     c.device, thousands(c.gpus), c.chips ? "chips" : "GPUs",
                     significant(c.days.value, 3), money(c.cost.value), p.currency,
                     strategy_line(c), c.meets ? "" : "\n" + lacks_line(c));
}

// The figures of the best offer to rent, or to buy: of a purchase, this run's share of the cost.
std::vector<Tile> offer_tiles(const Plan& p, const PlannedCluster& c) {
  std::vector<Tile> tiles = {
      number_tile(c.bought ? "Best to buy" : "Best to rent", c.name,
                  fmt::format("{} x {}, {}", thousands(c.gpus), c.device, strategy_line(c)),
                  "nodes", static_cast<double>(c.nodes))};
  const auto add = [&](const char* name, const Estimate& e, double per, const char* key) {
    tiles.push_back(interval_tile(name, significant(e.value * per, 3), range(e, per, 3), key, e));
  };
  add("Days", c.days, 1, "days");
  const Estimate& cost = c.cost;
  if (c.priced) {
    const std::string between =
        cost.low == cost.high ? "" : fmt::format("{} to {}", money(cost.low), money(cost.high));
    const std::string price =
        c.bought ? fmt::format("{}bought for {}", between.empty() ? "" : "; ", money(c.capital))
                 : "";
    tiles.push_back(interval_tile((c.bought ? "Cost of this run, " : "Cost, ") + p.currency,
                                  money(cost.value), between + price, "cost", cost));
  }
  add("Energy, MWh", c.energy, 1 / kMegawattHour, "energy");
  if (c.carbon) {
    add("Carbon, t CO2e", *c.carbon, 1e-3, "carbon");
  }
  return tiles;
}

void add_headline(Page& page, const Plan& p) {
  const auto meet =
      std::count_if(p.clusters.begin(), p.clusters.end(), [](const auto& c) { return c.meets; });
  page.section("best", "At a glance",
               fmt::format("{} tokens {}; the best to rent and the best to buy by {}.",
                           tokens_text(p.tokens), limits_line(p), p.objective));
  const Tile meeting = number_tile("Offers", fmt::format("{} of {}", meet, p.clusters.size()),
                                   "meet the limits", "meeting", static_cast<double>(meet),
                                   meet > 0 ? Tile::Tone::good : Tile::Tone::bad);
  if (meet == 0) {
    page.add(to_html({meeting}));
  }
  bool first = true;
  for (const bool bought : {false, true}) {
    const auto best = std::find_if(p.clusters.begin(), p.clusters.end(),
                                   [&](const auto& c) { return c.meets && c.bought == bought; });
    if (best != p.clusters.end()) {
      std::vector<Tile> tiles = offer_tiles(p, *best);
      if (first) {
        tiles.insert(tiles.begin(), meeting);
        first = false;
      }
      page.add(to_html(tiles));
      page.add(strategy_options(best->overrides));
    }
  }
}

// A logarithmic axis with a margin around the values.
PlotAxis ratio_axis(const std::vector<double>& values, const std::string& unit) {
  constexpr double kRoom = 1.15;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  PlotAxis axis{*low / kRoom, *high * kRoom, true, {}, unit};
  constexpr int kLabels = 15;  // 1, 2 and 5 of up to five powers of ten
  axis.labels = round_labels(axis, kLabels);
  constexpr std::size_t kFew = 4;
  if (axis.labels.size() < kFew) {  // within a power of ten: equal steps
    axis.labels = round_labels({axis.from, axis.to, false, {}, ""}, 6);
  }
  return axis;
}

const char* colour_of(const PlannedCluster& c) { return c.bought ? "1" : "0"; }

// Names of the dots, the best clusters' first, as far as they cover no other dot or name: on a
// phone, and where there is more room.
void name_dots(Plot& plot, const Plan& p, const PlotAxis& across, const PlotAxis& up) {
  struct Dot {
    const PlannedCluster* cluster;
    double x, y;  // shares of the drawing
  };
  const auto at = [](const PlotAxis& axis, double value) {
    return (std::log(value) - std::log(axis.from)) / (std::log(axis.to) - std::log(axis.from));
  };
  std::vector<Dot> dots;
  for (const PlannedCluster& c : p.clusters) {
    if (c.simulated && c.fits && c.cost.value > 0) {
      dots.push_back(
          {&c, at(across, c.days.value + c.wait_days), 1 - at(up, c.cost.value / kMillion)});
    }
  }
  constexpr double kLetter = 6.3, kDot = 8, kLine = 13;  // pixels
  struct Box {
    double left, right, y;
  };
  std::vector<bool> named(dots.size(), false);
  std::vector<std::pair<std::size_t, bool>> on_phone;
  for (const double width : {310.0, 620.0}) {  // of the drawing on a phone; on a small screen
    std::vector<Box> taken;
    for (const Dot& d : dots) {
      taken.push_back({d.x * width - kDot / 2, d.x * width + kDot / 2, d.y * kPlanPlotHeight});
    }
    const auto box_of = [&](const Dot& d, bool before) {
      const double wide = kLetter * static_cast<double>(d.cluster->name.size());
      const double x = d.x * width;
      return Box{before ? x - kDot - wide : x + kDot, before ? x - kDot : x + kDot + wide,
                 d.y * kPlanPlotHeight};
    };
    const auto is_free = [&](const Box& b) {
      return b.left >= 0 && b.right <= width &&
             std::none_of(taken.begin(), taken.end(), [&](const Box& t) {
               return b.left < t.right && t.left < b.right && std::abs(t.y - b.y) < kLine;
             });
    };
    for (const auto& [i, before] : on_phone) {
      taken.push_back(box_of(dots[i], before));
    }
    for (std::size_t i = 0; i < dots.size(); ++i) {
      for (const bool before : {false, true}) {
        const Box box = box_of(dots[i], before);
        if (named[i] || !is_free(box)) {
          continue;
        }
        named[i] = true;
        taken.push_back(box);
        if (width < 600) {
          on_phone.emplace_back(i, before);
        }
        plot.name(dots[i].cluster->days.value + dots[i].cluster->wait_days,
                  dots[i].cluster->cost.value / kMillion, dots[i].cluster->name, before,
                  width < 600 ? "" : "wide");
      }
    }
  }
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
  std::vector<Mark> marks = {{"s-0", "rented", ""}, {"s-1", "bought", ""}};
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
      plot.dot(c.days.value + c.wait_days, c.cost.value / kMillion,
               fmt::format("dot l-{}{}", colour_of(c), c.meets ? "" : " dim"), facts_of(p, c));
    }
  }
  name_dots(plot, p, across, up);
  page.add(figure(
      plot.finish("Days against cost, one dot per cluster; the table below has the figures"),
      fmt::format(
          "Horizontal axis: days{}; vertical axis: million {}. Each dot is a cluster with its best "
          "node count and strategy, pale where it misses a limit; its figures show on hover, and "
          "the tables below have them.",
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
    const std::string picture = interval_bar({{c.bought ? "s-1" : "s-0", c.cost.value, cost}},
                                             c.cost.low, c.cost.high, most);
    Record out = cluster_fields(p, c);
    out.push_back({"", if_known(c.simulated, picture), kNoHeading, Show::bar});
    return out;
  };
  for (const bool bought : {false, true}) {
    std::vector<PlannedCluster> of_kind;
    std::copy_if(p.clusters.begin(), p.clusters.end(), std::back_inserter(of_kind),
                 [&](const PlannedCluster& c) { return c.bought == bought; });
    if (of_kind.empty()) {
      continue;
    }
    Table table = page_table(of_kind, row,
                             {"cluster",
                              "meets",
                              "days",
                              {p.currency, p.currency},
                              {kNoHeading, ""},
                              "nodes",
                              "GPUs",
                              "MWh",
                              "peak MW",
                              "t CO2e",
                              "MFU",
                              "strategy",
                              "limits that it misses"});
    table.id = bought ? "bought-table" : "rented-table";
    table.caption =
        bought ? "Bought: the run's share of the purchase, interest, electricity, space and staff"
               : "Rented";
    table.sortable = true;
    page.add(to_html(table));
  }
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
          "A step takes {}; {}s compute for {} of it and wait for communication for {}; "
          "goodput {}. {} {}-hours, {} MW on average. {}; {}.",
          duration(c.step_time.value), c.chips ? "chip" : "GPU", percent(c.busy),
          percent(c.communicating), percent(c.effective.value),
          thousands(static_cast<std::int64_t>(c.gpu_hours.value + 0.5)), c.chips ? "chip" : "GPU",
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
