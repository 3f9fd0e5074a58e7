#include "sweep_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "../svg/plot.h"
#include "../text/format.h"
#include "sweep_axes.h"

namespace stepcast::report {

using result::Sweep;
using result::SweepPoint;

namespace {

constexpr std::array kDashes = {"", "7 4", "2 3", "10 3 2 3"};

}  // namespace

std::vector<std::size_t> other_axes(const Sweep& sweep, const std::vector<std::size_t>& but) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < sweep.axes.size(); ++i) {
    if (sweep.axes[i].values.size() > 1 && std::find(but.begin(), but.end(), i) == but.end()) {
      out.push_back(i);
    }
  }
  return out;
}

std::vector<PlotGroup> groups_of(const Sweep& sweep, const std::vector<std::size_t>& axes) {
  std::map<std::vector<std::size_t>, PlotGroup> all;
  std::map<std::vector<std::size_t>, std::size_t> dashes;  // by position on all axes but the last
  for (const SweepPoint& p : sweep.points) {
    std::vector<std::size_t> at;
    for (const std::size_t i : axes) {
      at.push_back(p.at[i]);
    }
    PlotGroup& group = all[at];
    group.points.push_back(&p);
    if (group.points.size() > 1) {
      continue;
    }
    group.name = place(p, axes, sweep);
    const std::size_t last = at.empty() ? 0 : at.back();
    if (!at.empty()) {
      at.pop_back();
    }
    const std::size_t dash = dashes.emplace(at, dashes.size()).first->second;
    group.colour = plot_colour(last);
    group.dash = kDashes[dash % kDashes.size()];
  }
  std::vector<PlotGroup> out;
  for (auto& [at, group] : all) {
    out.push_back(std::move(group));
  }
  return out;
}

double legend_height(std::size_t entries) {
  return legend_rows_height(std::min(entries, kLegend + 1));
}

std::string legend(const std::vector<PlotGroup>& groups, double left, double top, bool lines) {
  const LegendPlace place{left, top, 290, 34};
  std::string out;
  for (std::size_t i = 0; i < std::min(groups.size(), kLegend); ++i) {
    const PlotGroup& g = groups[i];
    const std::string sign =
        lines ? fmt::format(
                    "<line x1=\"0\" y1=\"0\" x2=\"28\" y2=\"0\" stroke=\"{}\" "
                    "stroke-width=\"2\" stroke-dasharray=\"{}\"/>",
                    g.colour, g.dash)
              : fmt::format("<circle cx=\"14\" cy=\"0\" r=\"4\" fill=\"{}\"/>", g.colour);
    out += legend_entry(place, i, sign, g.name);
  }
  return groups.size() > kLegend
             ? out + legend_entry(place, kLegend, "",
                                  fmt::format("and {} more", groups.size() - kLegend))
             : out;
}

std::string tooltip_of(const SweepPoint& p, const Sweep& sweep) {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < sweep.axes.size(); ++i) {
    all.push_back(i);
  }
  const std::string where = place(p, all, sweep);
  if (!p.ran) {
    return fmt::format("{}: {}", where, p.reason);
  }
  return fmt::format("{}: {} a step, {} tokens/s/GPU, MFU {}, {} GiB{}", where,
                     duration(p.step_time.value), significant(p.tokens_per_second_per_gpu.value),
                     percent(p.mfu.value), gibibytes(p.peak.value),
                     p.fits ? "" : ", does not fit: " + p.reason);
}

std::string mark(double x, double y, const std::string& colour, const SweepPoint& p,
                 const Sweep& sweep) {
  const std::string look = p.fits ? fmt::format("r=\"3.2\" fill=\"{}\"", colour)
                                  : fmt::format("class=\"dot\" r=\"3.6\" stroke=\"{}\"", colour);
  return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" {}>{}</circle>\n", x, y, look,
                     svg_title(tooltip_of(p, sweep)));
}

std::optional<std::size_t> curve_axis(const Sweep& sweep) {
  const auto numeric = [&](std::size_t i) {
    return sweep.axes[i].values.size() > 1 && !axis_numbers(sweep.axes[i]).empty();
  };
  if (sweep.scaling_axis && numeric(*sweep.scaling_axis)) {
    return sweep.scaling_axis;
  }
  for (std::size_t i = 0; i < sweep.axes.size(); ++i) {
    if (numeric(i)) {
      return i;
    }
  }
  return std::nullopt;
}

SweepPlot plot_of(const Sweep& sweep) {
  constexpr std::size_t kCurve = 3;  // least number of points of a curve
  const auto along = curve_axis(sweep);
  if (along && sweep.axes[*along].values.size() >= kCurve &&
      (sweep.scaling_axis == along || other_axes(sweep, {*along}).empty())) {
    return SweepPlot::scaling;
  }
  return lacks(sweep, SweepPlot::heatmap).empty() ? SweepPlot::heatmap : SweepPlot::pareto;
}

std::string lacks(const Sweep& sweep, SweepPlot plot) {
  switch (plot) {
    case SweepPlot::scaling:
      return curve_axis(sweep) ? "" : "needs an axis of at least two numbers";
    case SweepPlot::heatmap: {
      const auto axes = other_axes(sweep, {});
      constexpr std::size_t kPanels = 12, kSide = 128;
      std::size_t panels = 1;
      for (std::size_t i = 2; i < axes.size(); ++i) {
        panels *= sweep.axes[axes[i]].values.size();
      }
      if (axes.size() < 2) {
        return "needs two axes of at least two values";
      }
      if (panels > kPanels) {
        return fmt::format(
            "has {} panels, one for each combination of the other axes; expected at "
            "most {}",
            panels, kPanels);
      }
      return std::max(sweep.axes[axes[0]].values.size(), sweep.axes[axes[1]].values.size()) > kSide
                 ? fmt::format("has more than {} rows or columns", kSide)
                 : "";
    }
    case SweepPlot::pareto:
      return "";
  }
  return "";
}

std::string svg(const Sweep& sweep, SweepPlot plot) {
  switch (plot) {
    case SweepPlot::scaling:
      return scaling_svg(sweep);
    case SweepPlot::heatmap:
      return heatmap_svg(sweep);
    case SweepPlot::pareto:
      return pareto_svg(sweep);
  }
  return "";
}

}  // namespace stepcast::report
