// How much a fact that a run's source does not state may move its forecast.
#pragma once

#include <span>

#include "stepcast/runs/run.h"

namespace stepcast::validate {

// Relative half widths of a 90 % interval.
struct HalfWidths {
  double time = 0;
  double memory = 0;
};

// All assumptions together, as independent ones.
HalfWidths open_facts(std::span<const runs::Assumption> assumed);

}  // namespace stepcast::validate
