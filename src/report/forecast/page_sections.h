// Sections of the forecast's page. Each function adds its section to `page`, or nothing where the
// report has no data for it.
#pragma once

#include "stepcast/report/forecast_page.h"
#include "stepcast/report/page.h"

namespace stepcast::report {

void add_time(Page& page, const result::Report& report);
void add_timeline(Page& page, const result::Report& report);
void add_communication(Page& page, const result::Report& report);
void add_links(Page& page, const result::LinkUse& links);

}  // namespace stepcast::report
