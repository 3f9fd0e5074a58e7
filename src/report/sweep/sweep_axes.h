// Names of a sweep's axes and positions for readers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "stepcast/report/sweep.h"

namespace stepcast::report {

// The number that a value's text states, if it is one.
std::optional<double> sweep_number(const std::string& text);

// The last word of a key ("nodes"), or more of it where another key ends with the same word.
std::string short_key(const std::string& key, const result::Sweep& sweep);
std::string short_name(const result::SweepAxis& axis, const result::Sweep& sweep);

// A point's position on the given axes: "oversubscription 2, device b200-sxm".
std::string place(const result::SweepPoint& point, const std::vector<std::size_t>& axes,
                  const result::Sweep& sweep);

}  // namespace stepcast::report
