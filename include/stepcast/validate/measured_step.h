// A published row as a measured step, to which `simulate calibrate runs` fits.
#pragma once

#include <variant>

#include "stepcast/interop/published_rows.h"
#include "stepcast/result/site_calibration.h"

namespace stepcast::forecast {
class Forecaster;
}

namespace stepcast::validate {

// The job of a row and its step time, converted from the quantity that the row states (throughput, MFU). A row that gives no
// time of a whole step is skipped.
std::variant<result::MeasuredStep, interop::Skipped> measured_step(forecast::Forecaster& forecaster,
                                                                   const interop::PublishedRow& row);

}  // namespace stepcast::validate
