// Why a forecast is what it is, and how a measured step sits with it.
#pragma once

#include <optional>

#include "stepcast/result/explanation.h"

namespace stepcast::forecast {

// From a forecast's doubts, taken as independent and normal. `measured`: seconds of a step.
// LAW  share of the variance: c_i^2 / sum c^2, c_i = seconds under the doubt x its deviation
//      alone: gap / c_i deviations of that factor; together, the likeliest: gap x c_i / sum c^2
//      to halve the width: what makes three quarters of the variance, largest first
result::Explanation explain(const result::Report& report, std::optional<double> measured = {});

}  // namespace stepcast::forecast
