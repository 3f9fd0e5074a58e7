// Infinity: the time of an impossible plan, and the value of a limit that does not apply.
#pragma once

#include <limits>

namespace stepcast::automatic {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace stepcast::automatic
