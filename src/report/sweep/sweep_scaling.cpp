// Throughput and efficiency over an axis of numbers, a line for each combination of the others.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "../svg/plot.h"
#include "sweep_axes.h"
#include "sweep_plot.h"

namespace stepcast::report {
namespace {

using result::Sweep;
using result::SweepPoint;
using PointFigure = std::function<std::optional<double>(const SweepPoint&)>;

// Pixels.
constexpr double kScalingLeft = 66, kScalingTop = 76, kScalingWidth = 384, kScalingHeight = 330,
                 kScalingBetween = 84, kScalingBelow = 64;

struct Along {
  std::size_t axis = 0;
  std::vector<double> numbers;
};

std::vector<double> all_of(const Sweep& sweep, const PointFigure& figure) {
  std::vector<double> out;
  for (const SweepPoint& p : sweep.points) {
    if (const auto value = figure(p)) {
      out.push_back(*value);
    }
  }
  return out;
}

std::string curve(const PlotGroup& group, const PlotFrame& f, const Along& along,
                  const PointFigure& figure, const Sweep& sweep) {
  std::vector<const SweepPoint*> points = group.points;
  std::stable_sort(points.begin(), points.end(), [&](const auto* a, const auto* b) {
    return along.numbers[a->at[along.axis]] < along.numbers[b->at[along.axis]];
  });
  std::string line, marks;
  for (const SweepPoint* p : points) {
    if (const auto value = figure(*p)) {
      const double x = f.px(along.numbers[p->at[along.axis]]), y = f.py(*value);
      line += fmt::format("{:.1f},{:.1f} ", x, y);
      marks += mark(x, y, group.colour, *p, sweep);
    }
  }
  return fmt::format(
             "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\" "
             "stroke-dasharray=\"{}\" stroke-linejoin=\"round\"/>\n",
             line, group.colour, group.dash) +
         marks;
}

std::vector<PlotTick> positions(const Sweep& sweep, const Along& along) {
  std::vector<PlotTick> out;
  for (std::size_t i = 0; i < along.numbers.size(); ++i) {
    out.push_back({along.numbers[i], sweep.axes[along.axis].values[i].front()});
  }
  std::sort(out.begin(), out.end(),
            [](const PlotTick& a, const PlotTick& b) { return a.value < b.value; });
  return out;
}

std::string panel(const Sweep& sweep, const std::vector<PlotGroup>& groups, const Along& along,
                  double left, bool from_zero, const std::string& name, const PointFigure& figure) {
  PlotFrame f{left,
              kScalingTop,
              kScalingWidth,
              kScalingHeight,
              scale_of(along.numbers, false),
              scale_of(all_of(sweep, figure), from_zero)};
  std::string out = grid(f, positions(sweep, along), labelled(ticks(f.y)),
                         axis_name(sweep.axes[along.axis]), name);
  for (const PlotGroup& group : groups) {
    out += curve(group, f, along, figure, sweep);
  }
  return out;
}

}  // namespace

std::string scaling_svg(const Sweep& sweep) {
  const std::size_t axis = *curve_axis(sweep);
  const Along along{axis, axis_numbers(sweep.axes[axis])};
  const auto groups = groups_of(sweep, other_axes(sweep, {axis}));
  const bool efficiency = sweep.scaling_axis == axis;
  const double below = kScalingTop + kScalingHeight + kScalingBelow;
  const double width = kScalingLeft + 2 * kScalingWidth + kScalingBetween + 24;
  std::string out = plot_head(width, below + legend_height(groups.size()), sweep.title, 28);
  out += panel(sweep, groups, along, kScalingLeft, true, "tokens/s, all GPUs",
               [](const SweepPoint& p) {
                 return p.ran ? std::optional(p.tokens_per_second) : std::nullopt;
               });
  out +=
      panel(sweep, groups, along, kScalingLeft + kScalingWidth + kScalingBetween, true,
            efficiency ? "scaling efficiency relative to the fewest GPUs" : "tokens/s of each GPU",
            [=](const SweepPoint& p) -> std::optional<double> {
              return efficiency ? p.efficiency
                     : p.ran    ? std::optional(p.tokens_per_second_per_gpu.value)
                                : std::nullopt;
            });
  return out + legend(groups, 20, below, true) + "</svg>\n";
}

}  // namespace stepcast::report
