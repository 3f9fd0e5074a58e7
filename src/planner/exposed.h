// A figure of a report that several tables show.
#pragma once

#include "stepcast/result/report.h"

namespace stepcast::planner {

// Exposed communication in seconds: the mean over stages.
double exposed_seconds(const result::Report& report);

}  // namespace stepcast::planner
