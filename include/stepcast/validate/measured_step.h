// A published row as a measured step: what `simulate calibrate runs` fits to.
#pragma once

#include <variant>

#include "stepcast/forecast/forecaster.h"
#include "stepcast/interop/published_rows.h"
#include "stepcast/result/site_calibration.h"

namespace stepcast::validate {

// The row's job and its step time, converted from whatever it printed (throughput, MFU). A row
// without a time of a whole step has none.
std::variant<result::MeasuredStep, interop::Skipped> measured_step(forecast::Forecaster& forecaster,
                                                                   const interop::PublishedRow& row);

}  // namespace stepcast::validate
