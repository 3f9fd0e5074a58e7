// What rows of a table say of a report.
#pragma once

#include "stepcast/result/report.h"

namespace stepcast::planner {

// Mean over stages of the communication that nothing hides: seconds.
double exposed_seconds(const result::Report& report);

}  // namespace stepcast::planner
