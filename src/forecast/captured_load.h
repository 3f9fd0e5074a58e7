// The load of a capture's experts.
#pragma once

#include <variant>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/capture/capture.h"
#include "stepcast/job/job.h"

namespace stepcast::forecast {

// By recorded rank: rows of its experts under a load, over those that it was recorded with; 1 where
// it has none. The reason where the load does not suit the experts.
std::variant<std::vector<double>, Infeasible> captured_loads(const capture::Capture& capture,
                                                             const job::ExpertBalance& balance);

}  // namespace stepcast::forecast
