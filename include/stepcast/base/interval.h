// The definition of all 90 % intervals.
#pragma once

namespace stepcast {

// Standard deviations on either side of the mean that hold 90 % of a normal distribution.
inline constexpr double kDeviations90 = 1.645;

}  // namespace stepcast
