// What a step sends over the cluster's links.
#pragma once

#include "stepcast/job/job.h"
#include "stepcast/result/links.h"
#include "stepcast/result/memory.h"
#include "stepcast/result/report.h"

namespace stepcast::forecast {

// Bytes that each operation puts on NVLink, NIC and spine are those that its price was made with; a rank counts as the mean
// of its pipeline stage's. `report` has a trace. Copies to the host are not counted.
result::LinkUse link_use(const result::Report& report, const job::Job& job);

// Each stage's memory over the step of a report with a trace; Forecaster::memory without a second simulation.
result::MemoryTimeline memory_timeline(const result::Report& report, const job::Job& job);

}  // namespace stepcast::forecast
