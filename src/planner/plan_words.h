// Texts of a planned cluster: the figures that it rests on, and what it lacks.
#pragma once

#include <string>
#include <vector>

#include "stepcast/planner/plan.h"

namespace stepcast::planner {

// What the seconds of a forecast's critical path rest on, by file, the largest share first.
std::vector<result::PlanBasis> basis_of(const result::Report& report);

std::vector<result::PlanFigure> figures(const Rates& rates, const std::string& currency);

// Memory first, then deadline, budget and power.
std::vector<result::Shortfall> shortfalls(const result::PlannedCluster& cluster,
                                          const result::PlanLimits& limits,
                                          const std::string& currency);

}  // namespace stepcast::planner
