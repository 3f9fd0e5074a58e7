// What the pictures of a sweep share: groups of points, colours by the last axis, a legend.
#pragma once

#include <string>
#include <vector>

#include "plot.h"
#include "stepcast/report/sweep.h"

namespace stepcast::report {

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

std::string scaling_svg(const result::Sweep& sweep);
std::string heatmap_svg(const result::Sweep& sweep);
std::string pareto_svg(const result::Sweep& sweep);

// The axis of numbers that a scaling curve runs along.
std::optional<std::size_t> curve_axis(const result::Sweep& sweep);

}  // namespace stepcast::report
