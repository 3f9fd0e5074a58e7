// Kernels that follow each other become one task where nothing can come between them.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "item.h"

namespace stepcast::lower {

// Merged kernels are priced by several curves: shares by curve, made world curves at the end.
class Blends {
 public:
  explicit Blends(program::CurveId first) : first_(first) {}
  program::CurveId add(const std::map<program::CurveId, Time>& time_by_curve);
  const std::vector<std::vector<std::pair<program::CurveId, double>>>& all() const {
    return blends_;
  }

 private:
  program::CurveId first_;
  std::vector<std::vector<std::pair<program::CurveId, double>>> blends_;
};

// Joins neighbouring kernels of one category and kind where the host cannot hold them up: it issues
// each later kernel (`launch` is its time for one) before the kernels ahead can have ended, even if
// the first starts the moment it is issued. Times, breakdown and memory stay the same
// (tests/agree/forecast_test.cpp). Curves become a blend.
std::vector<Item> merge(const std::vector<Item>& items, Time launch, Blends& blends);

}  // namespace stepcast::lower
