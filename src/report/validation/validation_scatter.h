// Pictures of predicted against measured, as SVG elements for a page that defines the classes
// grid, diagonal, axis and ink.
#pragma once

#include <string>
#include <vector>

#include "stepcast/result/validation.h"

namespace stepcast::report {

// One measured point in comparable units: a step's seconds, or bytes.
struct ScatterPoint {
  const result::ValidationRow* row = nullptr;
  std::size_t source = 0;  // index into the list of sources, by which colour and shape are chosen
  double measured = 0, predicted = 0, low = 0, high = 0;
};

// A mark in the colour and shape of a source; there are twenty-four different ones.
std::string scatter_mark(std::size_t source, double x, double y);

// A scatter plot with logarithmic axes, the diagonal, and a band of 10 % on either side.
// `per_unit` divides values for the axes ("s": 1, "GiB": 2^30).
std::string scatter(const std::vector<ScatterPoint>& points, const std::string& unit,
                    double per_unit);

// A row of signed errors for each source, with the median marked. Errors beyond the axis' ends are
// drawn at its ends.
std::string error_strips(const std::vector<ScatterPoint>& points,
                         const std::vector<std::string>& sources);

}  // namespace stepcast::report
