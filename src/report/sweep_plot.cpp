#include "sweep_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "format.h"
#include "plot.h"
#include "sweep_axes.h"

namespace stepcast::report {

using result::Sweep;
using result::SweepPoint;

namespace {

// Beyond this ratio of the largest to the least, a scale counts by ratios.
constexpr double kMuch = 8;
constexpr std::array kDashes = {"", "7 4", "2 3", "10 3 2 3"};
constexpr double kLegendRow = 20, kLegendColumn = 290;
constexpr std::size_t kLegendColumns = 3;

}  // namespace

double PlotScale::at(double value) const {
  if (log) {
    return std::log(value / least) / std::log(most / least);
  }
  return (value - least) / (most - least);
}

PlotScale scale_of(const std::vector<double>& values, bool from_zero) {
  if (values.empty()) {
    return {};
  }
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  PlotScale s{*low, *high, *low > 0 && *high > kMuch * *low};
  constexpr double kMargin = 0.06;  // of the span, beyond the outermost
  if (s.log) {
    const double beyond = std::pow(s.most / s.least, kMargin);
    s.least /= beyond;
    s.most *= beyond;
  } else {
    const double span = s.most > s.least ? s.most - s.least : std::max(std::abs(s.most), 1.0);
    s.least = from_zero && *low >= 0 ? 0 : s.least - kMargin * span;
    s.most += kMargin * span;
  }
  return s;
}

std::vector<double> ticks(const PlotScale& s) {
  std::vector<double> out;
  if (!s.log) {
    const double step = ticks(s.most - s.least).at(1);
    for (double n = std::ceil(s.least / step - 1e-9); n * step <= s.most; ++n) {
      out.push_back(n == 0 ? 0 : n * step);
    }
    return out;
  }
  const double decades = std::log10(s.most / s.least);
  for (double power = std::floor(std::log10(s.least)); power <= std::log10(s.most); ++power) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double value = factor * std::pow(10, power);
      constexpr double kFew = 3;  // decades that leave room for 2 and 5
      if (value >= s.least && value <= s.most && (factor == 1 || decades <= kFew)) {
        out.push_back(value);
      }
    }
  }
  return out;
}

std::string short_number(double value) {
  constexpr std::array kUnits = {"", " k", " M", " G", " T"};
  std::size_t unit = 0;
  while (std::abs(value) >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.3g}{}", value, kUnits[unit]);
}

std::vector<PlotTick> labelled(const std::vector<double>& values) {
  std::vector<PlotTick> out;
  for (const double v : values) {
    out.push_back({v, short_number(v)});
  }
  return out;
}

std::string grid(const PlotFrame& f, const std::vector<PlotTick>& xs,
                 const std::vector<PlotTick>& ys, const std::string& x_name,
                 const std::string& y_name) {
  std::string out;
  for (const PlotTick& t : ys) {
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{2:.1f}\" y2=\"{1:.1f}\"/>"
        "<text x=\"{3:.1f}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
        f.left, f.py(t.value), f.left + f.width, f.left - 7, f.py(t.value) + 4, xml_text(t.label));
  }
  constexpr double kApart = 46;  // pixels that a label takes
  double last = -kApart;
  for (const PlotTick& t : xs) {
    const double x = f.px(t.value);
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\"/>", x,
        f.top, f.top + f.height);
    if (x - last >= kApart) {
      out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>", x,
                         f.top + f.height + 18, xml_text(t.label));
      last = x;
    }
    out += "\n";
  }
  return out + fmt::format(
                   "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>"
                   "<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
                   f.left + f.width / 2, f.top + f.height + 38, xml_text(x_name), f.left - 46,
                   f.top - 12, xml_text(y_name));
}

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
  std::map<std::vector<std::size_t>, std::size_t> dashes;  // of all axes but the last
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
  const std::size_t shown = std::min(entries, kLegend + 1);
  return kLegendRow * static_cast<double>((shown + kLegendColumns - 1) / kLegendColumns);
}

std::string legend(const std::vector<PlotGroup>& groups, double left, double top, bool lines) {
  std::string out;
  const auto entry = [&](std::size_t i, const std::string& sign, const std::string& text) {
    out += fmt::format(
        "<g transform=\"translate({:.0f},{:.0f})\">{}<text x=\"34\" y=\"4\">{}</text></g>\n",
        left + kLegendColumn * static_cast<double>(i % kLegendColumns),
        top + kLegendRow * static_cast<double>(i / kLegendColumns), sign, xml_text(text));
  };
  for (std::size_t i = 0; i < std::min(groups.size(), kLegend); ++i) {
    const PlotGroup& g = groups[i];
    entry(i,
          lines ? fmt::format("<line x1=\"0\" y1=\"0\" x2=\"28\" y2=\"0\" stroke=\"{}\" "
                              "stroke-width=\"2\" stroke-dasharray=\"{}\"/>",
                              g.colour, g.dash)
                : fmt::format("<circle cx=\"14\" cy=\"0\" r=\"4\" fill=\"{}\"/>", g.colour),
          g.name);
  }
  if (groups.size() > kLegend) {
    entry(kLegend, "", fmt::format("and {} more", groups.size() - kLegend));
  }
  return out;
}

std::string told(const SweepPoint& p, const Sweep& sweep) {
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
  return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" {}><title>{}</title></circle>\n", x, y,
                     look, xml_text(told(p, sweep)));
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
  constexpr std::size_t kCurve = 3;  // points that make a curve
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
