// The flat table of a sweep: what CSV writes and its description states.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "stepcast/result/sweep.h"
#include "value.h"

namespace stepcast::report {

struct SweepColumn {
  std::string name;
  std::string type;  // int64 | float64 | boolean | string
  std::string unit;  // "s", "byte"; of a plain number "1"; of what is no number ""
  std::string what;
  std::function<Value(const result::SweepPoint&)> of;  // null, or a value of the column's type
};

// Those of every sweep have the same names in the same order; axes, named by their keys, stand
// behind the first, and of an optimized sweep the strategies' keys, as "strategy.KEY", at the end.
std::vector<SweepColumn> sweep_columns(const result::Sweep& sweep);

// Figures of a point that ran, for JSON, the terminal's table and the page's.
Record sweep_figures(const result::SweepPoint& point);

}  // namespace stepcast::report
