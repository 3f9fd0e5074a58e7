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
  std::size_t source = 0;  // into the list of sources: colour and shape
  double measured = 0, predicted = 0, low = 0, high = 0;
};

// Colour and shape of a source; twenty-four of them differ.
std::string scatter_mark(std::size_t source, double x, double y);

// Both axes logarithmic, the diagonal, and a band of a tenth on either side.
// `per_unit` divides values for the axes ("s": 1, "GiB": 2^30).
std::string scatter(const std::vector<ScatterPoint>& points, const std::string& unit,
                    double per_unit);

// A row per source of signed errors, the median marked; beyond the axis' ends at its ends.
std::string error_strips(const std::vector<ScatterPoint>& points,
                         const std::vector<std::string>& sources);

}  // namespace stepcast::report
