// A sweep as a table, JSON, CSV and pictures.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "stepcast/result/sweep.h"

namespace stepcast::report {

std::string axis_name(const result::SweepAxis& axis);                         // "cluster.nodes", "a,b"
std::string axis_label(const result::SweepAxis& axis, std::size_t position);  // "8", "1:2"
// The values at its positions where all are numbers; else empty. Of keys that change together, the first one counts.
std::vector<double> axis_numbers(const result::SweepAxis& axis);

std::string terminal(const result::Sweep& sweep, bool colour, int width);
std::string json(const result::Sweep& sweep);

// One line per point under a line of names. A column has one type: int64, float64, boolean or string; numbers are in SI base
// units, an empty cell is null.
std::string csv(const result::Sweep& sweep);
// Its columns, one per line, as CSV: name, type, unit and meaning.
std::string csv_columns(const result::Sweep& sweep);

enum class SweepPlot {
  scaling,  // throughput and efficiency over an axis of numbers, a line for each combination of the others
  heatmap,  // throughput of each GPU over two axes, a panel for each combination of the others
  pareto,   // time against cost, with the front
};
// The kind of picture that suits the sweep's axes.
SweepPlot plot_of(const result::Sweep& sweep);
// The reason that a sweep cannot have such a picture, or "".
std::string lacks(const result::Sweep& sweep, SweepPlot plot);
std::string svg(const result::Sweep& sweep, SweepPlot plot);

}  // namespace stepcast::report
