// What "a 90 % interval" means everywhere.
#pragma once

namespace stepcast {

// Standard deviations on either side of the mean that hold 90 % of a normal distribution.
inline constexpr double kDeviations90 = 1.645;

}  // namespace stepcast
