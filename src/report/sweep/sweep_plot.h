// Shared by the pictures of a sweep: groups of points, colours by the last axis, a legend.
#pragma once

#include <string>
#include <vector>

#include "../svg/plot.h"
#include "stepcast/report/sweep.h"

namespace stepcast::report {

// Points with the same position on some axes.
struct PlotGroup {
  std::string name;
  std::string colour, dash;  // the colour is by the last of these axes, the dash by the others
  std::vector<const result::SweepPoint*> points;
};
std::vector<PlotGroup> groups_of(const result::Sweep& sweep, const std::vector<std::size_t>& axes);
// All axes with more than one position, except for `but`.
std::vector<std::size_t> other_axes(const result::Sweep& sweep,
                                    const std::vector<std::size_t>& but);

// The largest number of entries of a legend.
constexpr std::size_t kLegend = 24;
double legend_height(std::size_t entries);
std::string legend(const std::vector<PlotGroup>& groups, double left, double top, bool lines);

// A point's facts, shown on hover.
std::string tooltip_of(const result::SweepPoint& point, const result::Sweep& sweep);
// A mark, filled where the point fits in memory and hollow where it does not.
std::string mark(double x, double y, const std::string& colour, const result::SweepPoint& point,
                 const result::Sweep& sweep);

std::string scaling_svg(const result::Sweep& sweep);
std::string heatmap_svg(const result::Sweep& sweep);
std::string pareto_svg(const result::Sweep& sweep);

// The axis of numbers that a scaling curve runs along.
std::optional<std::size_t> curve_axis(const result::Sweep& sweep);

}  // namespace stepcast::report
