// The time of what is impossible, and the value of a limit that does not bind.
#pragma once

#include <limits>

namespace stepcast::automatic {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace stepcast::automatic
