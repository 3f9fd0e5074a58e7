// A random search of degrees: the bound predicts, and the engine simulates the best points.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "../inputs.h"
#include "degrees.h"

namespace stepcast::automatic {

struct DegreeRun {
  std::optional<result::Strategy> best;  // the best strategy that fits
  double bound = 0;                      // lower bound of its objective
  std::int64_t evaluated = 0;            // number of distinct points that were bounded
  int simulated = 0;
  std::string why_not;  // the reason if nothing was found
};

using DegreeAlgorithm = DegreeAnswer (*)(const DegreeProblem&, const DegreeSearch&);
// The engine's forecast of the job with these overrides. Returns nothing, with the reason, if the
// job is refused.
using Simulate = std::function<std::optional<result::Strategy>(
    const std::vector<std::string>& overrides, std::string& why)>;

// The engine simulates the points in the order of their bounds until no other point can be better.
// Points that the loader or the system refuses do not count towards the budget.
DegreeRun search_degrees(DegreeAlgorithm algorithm, const Inputs& in, const Simulate& simulate);

}  // namespace stepcast::automatic
