// The interval of a step by Monte Carlo: the same step with the errors of its curves drawn at
// random.
#pragma once

#include <cstdint>
#include <vector>

#include "stepcast/base/stop.h"
#include "stepcast/program/program.h"
#include "stepcast/result/report.h"

namespace stepcast::forecast {

// Seconds of `samples` steps, the shortest first: every curve's prices are scaled by a factor drawn
// with the curve's residual, and the world is simulated again. Those of `doubts` that belong to no
// curve act nearly linearly on the step and are added as one normal error.
std::vector<double> drawn_steps(const program::World& world,
                                const std::vector<result::Doubt>& doubts, int samples,
                                std::uint64_t seed, const Stop* stop);

}  // namespace stepcast::forecast
