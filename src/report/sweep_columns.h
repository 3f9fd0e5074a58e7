// The flat table of a sweep: what CSV writes and its description states.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "stepcast/result/sweep.h"

namespace stepcast::report {

// Null, or a value of the column's type.
using Cell = std::variant<std::monostate, std::int64_t, double, bool, std::string>;

struct SweepColumn {
  std::string name;
  std::string type;  // int64 | float64 | boolean | string
  std::string unit;  // "s", "byte"; of a plain number "1"; of what is no number ""
  std::string what;
  std::function<Cell(const result::SweepPoint&)> of;
};

// Those of every sweep have the same names in the same order; axes, named by their keys, stand
// behind the first, and of an optimized sweep the strategies' keys, as "strategy.KEY", at the end.
std::vector<SweepColumn> sweep_columns(const result::Sweep& sweep);

}  // namespace stepcast::report
