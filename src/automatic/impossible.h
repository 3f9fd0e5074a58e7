// The time of what cannot run.
#pragma once

#include <limits>

namespace stepcast::automatic {

// Seconds; above every time of what can run.
inline constexpr double kImpossible = std::numeric_limits<double>::infinity();

}  // namespace stepcast::automatic
