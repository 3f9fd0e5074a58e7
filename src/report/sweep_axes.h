// What a sweep's axes are to a reader.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "stepcast/report/sweep.h"

namespace stepcast::report {

// A value as typed, where it is a number.
std::optional<double> sweep_number(const std::string& text);

// The last word of a key, or more of it where others end alike: "nodes".
std::string short_key(const std::string& key, const result::Sweep& sweep);
std::string short_name(const result::SweepAxis& axis, const result::Sweep& sweep);

// Where a point stands on those axes: "oversubscription 2, device b200-sxm".
std::string place(const result::SweepPoint& point, const std::vector<std::size_t>& axes,
                  const result::Sweep& sweep);

}  // namespace stepcast::report
