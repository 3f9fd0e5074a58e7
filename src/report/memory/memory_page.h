// The section on memory of the forecast's page.
#pragma once

#include "stepcast/report/page.h"
#include "stepcast/result/memory.h"
#include "stepcast/result/report.h"

namespace stepcast::report {

// Adds each stage's peak by category and its memory over the step, or nothing where the report has
// no memory.
void add_memory(Page& page, const result::Report& report, const result::MemoryTimeline& timeline);

}  // namespace stepcast::report
