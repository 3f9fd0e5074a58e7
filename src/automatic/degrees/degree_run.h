// A random search of degrees with the bound as prediction model, and the engine on its best points.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "../inputs.h"
#include "degrees.h"

namespace stepcast::automatic {

struct DegreeRun {
  std::optional<result::Strategy> best;  // of those that fit
  double bound = 0;                      // lower bound of the best strategy's objective
  std::int64_t evaluated = 0;            // different points that were bounded
  int simulated = 0;
  std::string why_not;  // where nothing was found
};

using DegreeAlgorithm = DegreeAnswer (*)(const DegreeProblem&, const DegreeSearch&);
// The engine's forecast of the job with these overrides; nothing, with the reason, where it is
// refused.
using Simulate = std::function<std::optional<result::Strategy>(
    const std::vector<std::string>& overrides, std::string& why)>;

// The engine runs the points in the order of their bounds until no other can be better. Points that
// a loader or a system refuses do not count towards the budget.
DegreeRun search_degrees(DegreeAlgorithm algorithm, const Inputs& in, const Simulate& simulate);

}  // namespace stepcast::automatic
