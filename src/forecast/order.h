#pragma once

#include "stepcast/cluster/topology.h"
#include "stepcast/lower/lower.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::forecast {

// Plans an automatic schedule with the pass times of this job, as its runtime measures them before
// it plans. The times are those of a whole rank's passes, averaged over pipeline ranks (zero-bubble
// runtime, profiled T_F, T_B, T_W, T_comm).
void order_by_forecast_times(strategy::Plan& plan, const cluster::Topology& topology,
                             const lower::Prices& prices);

}  // namespace stepcast::forecast
