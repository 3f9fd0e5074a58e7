// What the pictures of a sweep share: scales, frames, colours by the last axis, a legend.
#pragma once

#include <string>
#include <vector>

#include "stepcast/report/sweep.h"

namespace stepcast::report {

// From values to a share of a side; by ratios where they span much.
struct PlotScale {
  double least = 0, most = 1;
  bool log = false;
  double at(double value) const;
};
// Of values above 0: logarithmic where they span more than eight times, else from `floor`, or below
// the least.
PlotScale scale_of(const std::vector<double>& values, bool from_zero);
std::vector<double> ticks(const PlotScale& scale);

// A frame on the page, in pixels.
struct PlotFrame {
  double left = 0, top = 0, width = 0, height = 0;
  PlotScale x, y;
  double px(double value) const { return left + width * x.at(value); }
  double py(double value) const { return top + height * (1 - y.at(value)); }
};
struct PlotTick {
  double value = 0;
  std::string label;
};
std::vector<PlotTick> labelled(const std::vector<double>& values);
std::string grid(const PlotFrame& frame, const std::vector<PlotTick>& xs,
                 const std::vector<PlotTick>& ys, const std::string& x_name,
                 const std::string& y_name);

// Points that stand alike on `axes`.
struct PlotGroup {
  std::string name;
  std::string colour, dash;  // by the last of the axes, and by the others
  std::vector<const result::SweepPoint*> points;
};
std::vector<PlotGroup> groups_of(const result::Sweep& sweep, const std::vector<std::size_t>& axes);
// All axes with more than one position but those.
std::vector<std::size_t> other_axes(const result::Sweep& sweep,
                                    const std::vector<std::size_t>& but);

// At most so many entries are written.
constexpr std::size_t kLegend = 24;
double legend_height(std::size_t entries);
std::string legend(const std::vector<PlotGroup>& groups, double left, double top, bool lines);

// A point's facts, for those who hover over it.
std::string told(const result::SweepPoint& point, const result::Sweep& sweep);
// A mark: full where the point fits, hollow where it does not.
std::string mark(double x, double y, const std::string& colour, const result::SweepPoint& point,
                 const result::Sweep& sweep);

// 1234567 as "1.23 M".
std::string short_number(double value);

std::string scaling_svg(const result::Sweep& sweep);
std::string heatmap_svg(const result::Sweep& sweep);
std::string pareto_svg(const result::Sweep& sweep);

// The axis of numbers that a scaling curve runs along.
std::optional<std::size_t> curve_axis(const result::Sweep& sweep);

}  // namespace stepcast::report
