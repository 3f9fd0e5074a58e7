// The use of the cluster's links in a step.
#pragma once

#include "stepcast/job/job.h"
#include "stepcast/result/links.h"
#include "stepcast/result/memory.h"
#include "stepcast/result/report.h"

namespace stepcast::forecast {

// The bytes of each operation on NVLink, NIC and spine are those of its price. Each rank is assumed to send the mean
// of its pipeline stage. `report` must have a trace. Copies to the host are not counted.
result::LinkUse link_use(const result::Report& report, const job::Job& job);

// Each stage's memory over the step of a report with a trace. It is the result of Forecaster::memory, without a second
// simulation.
result::MemoryTimeline memory_timeline(const result::Report& report, const job::Job& job);

}  // namespace stepcast::forecast
