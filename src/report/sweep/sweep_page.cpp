// A sweep as one page.
#include "stepcast/report/sweep_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "../page/page_parts.h"
#include "../page/page_plot.h"
#include "../record/tables.h"
#include "../text/format.h"
#include "../words/fit_words.h"
#include "stepcast/base/calendar.h"
#include "sweep_columns.h"
#include "sweep_conclusion.h"

namespace stepcast::report {
namespace {

using result::Sweep;
using result::SweepAxis;
using result::SweepPoint;

constexpr std::size_t kMaxLines = 8;     // colours
constexpr std::size_t kMaxRows = 2000;   // of the table, so that the page opens at once
constexpr std::size_t kMaxHeatMaps = 6;  // heat maps
constexpr int kSweepPlotHeight = 260;    // pixels

std::string keys_of(const SweepAxis& axis) { return fmt::format("{}", fmt::join(axis.keys, ", ")); }
std::string label_of(const SweepAxis& axis, std::size_t at) {
  return fmt::format("{}", fmt::join(axis.values[at], ", "));
}

// A point's position on all axes but `left_out`: "oversubscription=2, device=h200-sxm".
std::string rest_of(const Sweep& s, const SweepPoint& p, const std::vector<std::size_t>& left_out) {
  std::string out;
  for (std::size_t a = 0; a < s.axes.size(); ++a) {
    if (std::find(left_out.begin(), left_out.end(), a) == left_out.end()) {
      const std::string name = keys_of(s.axes[a]);
      out += fmt::format("{}{}={}", out.empty() ? "" : ", ", name.substr(name.rfind('.') + 1),
                         label_of(s.axes[a], p.at[a]));
    }
  }
  return out.empty() ? "all" : out;
}

std::string facts_of(const SweepPoint& p) {
  return fmt::format("{}\n{} GPUs: {}, {} tokens/s/GPU, MFU {}, {} GiB{}{}",
                     fmt::join(p.overrides, "\n"), thousands(p.gpus), duration(p.step_time.value),
                     significant(p.tokens_per_second_per_gpu.value, 4), percent(p.mfu.value),
                     gibibytes(p.peak.value), p.strategy.empty() ? "" : "\n",
                     fmt::join(p.strategy, "\n"));
}

const SweepPoint* best_of(const Sweep& s, bool (*better)(const SweepPoint&, const SweepPoint&)) {
  const SweepPoint* best = nullptr;
  for (const SweepPoint& p : s.points) {
    best = p.fits && (best == nullptr || better(p, *best)) ? &p : best;
  }
  return best;
}

// "948.9", "54.12 k", "3.086 M".
std::string tokens_rate(double per_second) {
  constexpr double kKilo = 1e3, kMega = 1e6;
  return per_second >= kMega   ? significant(per_second / kMega, 4) + " M"
         : per_second >= kKilo ? significant(per_second / kKilo, 4) + " k"
                               : significant(per_second, 4);
}

void add_headline(Page& page, const Sweep& s) {
  const auto ran =
      std::count_if(s.points.begin(), s.points.end(), [](const auto& p) { return p.ran; });
  const auto fit =
      std::count_if(s.points.begin(), s.points.end(), [](const auto& p) { return p.fits; });
  page.section(
      "best", "At a glance",
      s.objective.empty() ? "" : "Each point with its best strategy, by " + s.objective + ".");
  std::vector<Tile> tiles;
  const auto add = [&](const char* name, const char* figure, const SweepPoint* p,
                       const std::string& value, double number) {
    tiles.push_back(
        number_tile(name, value, fmt::format("{}", fmt::join(p->overrides, ", ")), figure, number));
  };
  if (fit > 0) {
    const SweepPoint* fast = best_of(s, [](const SweepPoint& a, const SweepPoint& b) {
      return a.tokens_per_second > b.tokens_per_second;
    });
    add("Fastest", "tokens_per_second", fast, tokens_rate(fast->tokens_per_second) + " tokens/s",
        fast->tokens_per_second);
    const SweepPoint* cheap = best_of(s, [](const SweepPoint& a, const SweepPoint& b) {
      return a.gpu_hours_per_gigatoken < b.gpu_hours_per_gigatoken;
    });
    add("Fewest GPU-hours", "gpu_hours_per_gigatoken", cheap,
        significant(cheap->gpu_hours_per_gigatoken, 4) + " / 1e9 tokens",
        cheap->gpu_hours_per_gigatoken);
    const SweepPoint* busy = best_of(
        s, [](const SweepPoint& a, const SweepPoint& b) { return a.mfu.value > b.mfu.value; });
    add("Highest MFU", "mfu", busy, percent(busy->mfu.value), busy->mfu.value);
  }
  tiles.push_back(number_tile("Points", thousands(static_cast<std::int64_t>(s.points.size())),
                              fmt::format("{} forecast, {} fit", thousands(ran), thousands(fit)),
                              "points", static_cast<double>(s.points.size()),
                              fit > 0 ? Tile::Tone::plain : Tile::Tone::bad));
  page.add(to_html(tiles));
  if (!s.overrides.empty()) {
    page.add(strategy_options(s.overrides));
  }
}

// The points of each line: one line for each combination of the axes other than that of the curve.
using Lines = std::map<std::string, std::vector<const SweepPoint*>>;

std::vector<Mark> marks_of(const Lines& lines) {
  std::vector<Mark> out;
  for (const auto& [name, points] : lines) {
    out.push_back({fmt::format("s-{}", out.size()), name, ""});
  }
  return out;
}

PlotAxis axis_over(const std::vector<double>& values, const char* unit) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  PlotAxis axis{*low, *high, *low > 0 && *high > 8 * *low, {}, unit};
  const double room = 0.04 * (axis.to - axis.from) + 1e-9 * axis.to;
  constexpr double kFactor = 1.08;
  axis.from = axis.logarithmic ? axis.from / kFactor : std::max(0.0, axis.from - room);
  axis.to = axis.logarithmic ? axis.to * kFactor : axis.to + room;
  return axis;
}

std::string line_plot(const Lines& lines, double (*up)(const SweepPoint&), const char* unit,
                      const char* what) {
  std::vector<double> across, values;
  for (const auto& [name, points] : lines) {
    for (const SweepPoint* p : points) {
      across.push_back(static_cast<double>(p->gpus));
      values.push_back(up(*p));
    }
  }
  PlotAxis x = axis_over(across, "GPUs");
  x.labels.clear();
  std::sort(across.begin(), across.end());
  across.erase(std::unique(across.begin(), across.end()), across.end());
  constexpr std::size_t kLabels = 8;
  const std::size_t every = (across.size() + kLabels - 1) / kLabels;
  for (std::size_t i = 0; i < across.size(); i += every) {
    x.labels.emplace_back(across[i], thousands(std::lround(across[i])));
  }
  Plot plot(x, axis_over(values, unit), kSweepPlotHeight);
  int colour = 0;
  for (const auto& [name, points] : lines) {
    Plot::Points path;
    for (const SweepPoint* p : points) {
      path.emplace_back(static_cast<double>(p->gpus), up(*p));
    }
    plot.line(path, fmt::format("line l-{}", colour), name);
    for (const SweepPoint* p : points) {
      plot.dot(static_cast<double>(p->gpus), up(*p), fmt::format("dot l-{}", colour), facts_of(*p));
    }
    ++colour;
  }
  return figure(
      plot.finish(fmt::format("{} over the number of GPUs; the table below has its figures", what)),
      what);
}

void add_scaling(Page& page, const Sweep& s) {
  if (!s.scaling_axis) {
    return;
  }
  Lines lines;
  for (const SweepPoint& p : s.points) {
    if (p.fits) {
      lines[rest_of(s, p, {*s.scaling_axis})].push_back(&p);
    }
  }
  const std::size_t all = lines.size();
  while (lines.size() > kMaxLines) {  // the line of least throughput is left out first
    lines.erase(std::min_element(lines.begin(), lines.end(), [](const auto& a, const auto& b) {
      const auto most = [](const auto& line) {
        double best = 0;
        for (const SweepPoint* p : line.second) {
          best = std::max(best, p->tokens_per_second);
        }
        return best;
      };
      return most(a) < most(b);
    }));
  }
  if (lines.empty()) {
    return;
  }
  for (auto& [name, points] : lines) {
    std::sort(points.begin(), points.end(),
              [](const SweepPoint* a, const SweepPoint* b) { return a->gpus < b->gpus; });
  }
  page.section(
      "scaling", "Scaling",
      all > lines.size()
          ? fmt::format("The {} fastest of {} combinations of the other axes.", lines.size(), all)
          : std::string());
  page.add(lines.size() > 1 ? legend(marks_of(lines)) : "");
  page.add("<div class=\"columns\">\n");
  page.add(line_plot(
      lines, [](const SweepPoint& p) { return p.tokens_per_second / 1e6; }, "M",
      "Tokens per second, in millions"));
  page.add(line_plot(
      lines, [](const SweepPoint& p) { return 100 * p.efficiency.value_or(0); }, "%",
      "Tokens per second per GPU, relative to the fewest GPUs that fit"));
  page.add("</div>\n");
}

// The points of a panel, by row and column.
using PanelPoints = std::map<std::pair<std::size_t, std::size_t>, const SweepPoint*>;

Cell heat_cell(const SweepPoint& p, const std::function<double(double)>& shade) {
  Cell cell = p.ran ? "no room" : "–";
  cell.hint = p.fits ? facts_of(p) : p.reason;
  if (p.fits) {
    const double value = p.tokens_per_second_per_gpu.value;
    cell.text = fmt::format("<span class=\"heat\" style=\"--share:{:.0f}%\">{}</span>",
                            shade(value), significant(value, 4));
    cell.markup = true;
    cell.number = value;
  }
  return cell;
}

Table heat_panel(const Sweep& s, std::size_t down, std::size_t across, const PanelPoints& points,
                 const std::function<double(double)>& shade) {
  Table table;
  table.columns.push_back({"", Column::Kind::text, ""});
  for (std::size_t x = 0; x < s.axes[across].values.size(); ++x) {
    table.columns.push_back({label_of(s.axes[across], x), Column::Kind::number, ""});
  }
  for (std::size_t y = 0; y < s.axes[down].values.size(); ++y) {
    std::vector<Cell> row = {label_of(s.axes[down], y)};
    for (std::size_t x = 0; x < s.axes[across].values.size(); ++x) {
      const auto found = points.find({y, x});
      row.push_back(found == points.end() ? Cell("") : heat_cell(*found->second, shade));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

// Heat maps over the first two axes with several positions, with a panel for each combination of
// the others.
void add_heat(Page& page, const Sweep& s) {
  std::vector<std::size_t> wide;
  for (std::size_t a = 0; a < s.axes.size(); ++a) {
    if (s.axes[a].values.size() > 1) {
      wide.push_back(a);
    }
  }
  if (wide.size() < 2) {
    return;
  }
  const std::size_t down = wide[0], across = wide[1];
  double most = 0, least = std::numeric_limits<double>::infinity();
  std::map<std::string, PanelPoints> panels;
  for (const SweepPoint& p : s.points) {
    panels[rest_of(s, p, {down, across})][{p.at[down], p.at[across]}] = &p;
    most = p.fits ? std::max(most, p.tokens_per_second_per_gpu.value) : most;
    least = p.fits ? std::min(least, p.tokens_per_second_per_gpu.value) : least;
  }
  page.section("heat", "Tokens per second per GPU",
               fmt::format("Rows: {}; columns: {}; a stronger colour means higher throughput.{}",
                           keys_of(s.axes[down]), keys_of(s.axes[across]),
                           panels.size() > kMaxHeatMaps ? fmt::format(" The first {} of {} panels.",
                                                                      kMaxHeatMaps, panels.size())
                                                        : ""));
  // In per cent of the colour, so that text stays legible.
  const auto shade = [&](double value) {
    constexpr double kPalest = 8, kStrongest = 62;
    const double above = most > least ? (value - least) / (most - least) : 1;
    return kPalest + (kStrongest - kPalest) * above;
  };
  page.add("<div class=\"panels\">\n");
  std::size_t shown = 0;
  for (const auto& [name, points] : panels) {
    if (++shown > kMaxHeatMaps) {
      break;
    }
    Table table = heat_panel(s, down, across, points, shade);
    table.caption = panels.size() > 1 ? name : "";
    page.add(to_html(table));
  }
  page.add("</div>\n");
}

void add_pareto(Page& page, const Sweep& s) {
  std::vector<const SweepPoint*> fit;
  std::vector<double> cost, hours;
  constexpr double kGiga = 1e9;
  const auto hours_of = [&](const SweepPoint& p) { return kGiga / p.tokens_per_second / kHour; };
  for (const SweepPoint& p : s.points) {
    if (p.fits && p.tokens_per_second > 0) {
      fit.push_back(&p);
      cost.push_back(p.gpu_hours_per_gigatoken);
      hours.push_back(hours_of(p));
    }
  }
  if (fit.size() < 2) {
    return;
  }
  page.section("pareto", "Time against cost");
  Plot plot(axis_over(cost, "GPU-h"), axis_over(hours, "h"), kSweepPlotHeight);
  Plot::Points front;
  for (const SweepPoint* p : fit) {
    if (p->on_front) {
      front.emplace_back(p->gpu_hours_per_gigatoken, hours_of(*p));
    }
  }
  std::sort(front.begin(), front.end());
  plot.line(steps(front), "line l-1", "Pareto front: no point is as fast with fewer GPU-hours");
  for (const SweepPoint* p : fit) {
    plot.dot(p->gpu_hours_per_gigatoken, hours_of(*p), p->on_front ? "dot l-1" : "dot l-0",
             facts_of(*p));
  }
  page.add(figure(plot.finish("Hours against GPU-hours; the table below has its figures"),
                  "For 1e9 tokens. Horizontal axis: GPU-hours; vertical axis: hours. The line is "
                  "the Pareto front: the fastest points for their cost."));
}

void add_points(Page& page, const Sweep& s) {
  page.section("points", "All points");
  const bool strategies = std::any_of(s.points.begin(), s.points.end(),
                                      [](const auto& p) { return !p.strategy.empty(); });
  const Captions figures = {"GPUs",     "step time", "tokens/s/GPU",       "MFU",
                            "peak GiB", "bubble",    "GPU-h / 1e9 tokens", "efficiency"};
  Table table;
  table.id = "points-table";
  table.sortable = true;
  for (const SweepAxis& axis : s.axes) {
    table.columns.push_back({keys_of(axis), Column::Kind::text, ""});
  }
  for (const Column& column : page_columns(sweep_figures({}), figures)) {
    table.columns.push_back(column);
  }
  table.columns.push_back({"fits", Column::Kind::text, ""});
  table.columns.push_back({strategies ? "strategy, or the reason that there is none" : "reason",
                           Column::Kind::prose, ""});
  const std::size_t shown = std::min(kMaxRows, s.points.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const SweepPoint& p = s.points[i];
    std::vector<Cell> row;
    for (std::size_t a = 0; a < s.axes.size(); ++a) {
      row.emplace_back(label_of(s.axes[a], p.at[a]));
    }
    const auto cells =
        p.ran ? page_row(sweep_figures(p), figures) : std::vector<Cell>(figures.size(), Cell(""));
    row.insert(row.end(), cells.begin(), cells.end());
    Cell fits = p.ran ? fit_words(p.fits) : "–";
    fits.bad = p.ran && !p.fits;
    row.push_back(fits);
    row.emplace_back(p.fits ? fmt::format("{}", fmt::join(p.strategy, " ")) : p.reason);
    table.rows.push_back(std::move(row));
  }
  if (shown < s.points.size()) {
    page.add(paragraph(fmt::format("The first {} of {}; the sweep's CSV and JSON have all.",
                                   thousands(static_cast<std::int64_t>(shown)),
                                   thousands(static_cast<std::int64_t>(s.points.size())))));
  }
  page.add(to_html(table));
}

}  // namespace

std::string html(const Sweep& s) {
  Page page("Sweep", s.title);
  page.lead(conclusion(s));
  page.add(
      "<style>.heat { display: block; margin: -3px -10px -3px -6px; padding: 3px 10px 3px 6px; "
      "background: color-mix(in srgb, var(--s0) var(--share), transparent); print-color-adjust: "
      "exact; -webkit-print-color-adjust: exact; } .panels { display: flex; flex-wrap: wrap; gap: "
      "4px 36px; } .panels > * { flex: none; } @media print { .heat { margin-right: "
      "-7px; padding-right: 7px; } }</style>\n");
  add_headline(page, s);
  add_scaling(page, s);
  add_heat(page, s);
  add_pareto(page, s);
  add_points(page, s);
  return page.finish();
}

}  // namespace stepcast::report
