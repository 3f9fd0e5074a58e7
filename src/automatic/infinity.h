// Seconds of what cannot be done, and limits that do not bind.
#pragma once

#include <limits>

namespace stepcast::automatic {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace stepcast::automatic
