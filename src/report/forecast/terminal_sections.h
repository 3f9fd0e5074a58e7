// Sections of the forecast's text. Each function gives its section, or "" where the report has no
// data for it.
#pragma once

#include <string>

#include "../text/format.h"
#include "stepcast/result/report.h"

namespace stepcast::report {

// Step time, efficiency, peak memory, and whether the job fits.
std::string headlines_text(const result::Report& report, const Paint& paint);
// Where each stage's time goes, as bars.
std::string breakdown_text(const result::Report& report, const Paint& paint, int width);
// What each stage's memory holds at its peak, as bars.
std::string stage_memory_text(const result::Report& report, const Paint& paint, int width);
// What each group of ranks sends.
std::string traffic_text(const result::Report& report, const Paint& paint, int width);

}  // namespace stepcast::report
