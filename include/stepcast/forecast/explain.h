// Explains a forecast: where its time and its uncertainty come from, and how a measured step compares.
#pragma once

#include <optional>

#include "stepcast/result/explanation.h"

namespace stepcast::forecast {

// The doubts of a forecast are taken as independent and normal. `measured`: seconds of a step.
// LAW  share of the variance: c_i^2 / sum c^2, c_i = seconds under the doubt x its deviation
//      deviations that explain the gap: if only this factor is off, gap / c_i; in the likeliest explanation by all of them,
//      gap x c_i / sum c^2
//      to halve the width: the largest doubts that make up three quarters of the variance
result::Explanation explain(const result::Report& report, std::optional<double> measured = {});

}  // namespace stepcast::forecast
