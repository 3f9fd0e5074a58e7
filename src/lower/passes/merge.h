// Kernels that follow each other become one task where nothing can come between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "item.h"

namespace stepcast::lower {

// Merged kernels are priced by several curves: shares by curve, made world curves at the end.
class Blends {
 public:
  // `in_tasks`: the curve of a task that has the first one.
  explicit Blends(program::CurveId in_tasks) : in_tasks_(in_tasks) {}
  // Its number, from 0.
  std::size_t add(const std::map<program::CurveId, Time>& time_by_curve);
  program::CurveId in_tasks(std::size_t number) const {
    return program::CurveId::at(in_tasks_ + number);
  }
  const std::vector<std::vector<std::pair<program::CurveId, double>>>& all() const {
    return blends_;
  }

 private:
  program::CurveId in_tasks_;
  std::vector<std::vector<std::pair<program::CurveId, double>>> blends_;
};

// Joins neighbouring kernels of one category and kind where the host cannot hold them up: it issues
// each later kernel (`launch` is its time for one) before the kernels ahead can have ended, even if
// the first starts the moment it is issued. Times, breakdown and memory stay the same
// (tests/agree/forecast_test.cpp). Curves become a blend.
std::vector<Item> merge(const std::vector<Item>& items, Time launch, Blends& blends);

}  // namespace stepcast::lower
