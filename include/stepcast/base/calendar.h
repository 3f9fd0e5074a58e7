// Units of whole runs. A run can be longer than Time can hold, so planners count in seconds as plain numbers.
#pragma once

namespace stepcast {

inline constexpr double kMinute = 60;  // s
inline constexpr double kHour = 60 * kMinute;
inline constexpr double kDay = 24 * kHour;
inline constexpr double kYear = 365.25 * kDay;  // Julian

inline constexpr double kKilowattHour = 1e3 * kHour;  // J
inline constexpr double kMegawattHour = 1e6 * kHour;

}  // namespace stepcast
