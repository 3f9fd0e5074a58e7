// The columns of a sweep's CSV, which are also described in a file of their own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "../record/value.h"
#include "stepcast/result/sweep.h"

namespace stepcast::report {

struct SweepColumn {
  std::string name;
  std::string type;  // int64 | float64 | boolean | string
  std::string unit;  // "s", "byte"; "1" for a plain number; "" for other types
  std::string what;
  std::function<Value(const result::SweepPoint&)> of;  // null, or a value of the column's type
};

// The columns of every sweep have the same names in the same order. After the first there is a
// column for each key of an axis, and in an optimized sweep the strategies' keys follow at the end,
// as "strategy.KEY".
std::vector<SweepColumn> sweep_columns(const result::Sweep& sweep);

// Figures of a point that ran, for JSON and for the tables of the terminal and the page.
Record sweep_figures(const result::SweepPoint& point);

}  // namespace stepcast::report
