// A random search of degrees with the bound as prediction model, and the engine on what it likes
// best.
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
  double bound = 0;                      // its own, of the objective
  std::int64_t evaluated = 0;            // different points that were bounded
  int simulated = 0;
  std::string why_not;  // nothing found: why
};

using DegreeAlgorithm = DegreeAnswer (*)(const DegreeProblem&, const DegreeSearch&);
// The job of these overrides by the engine; nothing, with the reason, where it is refused.
using Simulate = std::function<std::optional<result::Strategy>(
    const std::vector<std::string>& overrides, std::string& why)>;

// The engine runs the points in the order of their bounds until no other can be better. What a
// loader or a system refuses costs nothing of the budget.
DegreeRun search_degrees(DegreeAlgorithm algorithm, const Inputs& in, const Simulate& simulate);

}  // namespace stepcast::automatic
