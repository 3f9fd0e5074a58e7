// A measured run as a measured step, to which `simulate calibrate runs` fits.
#pragma once

#include <variant>

#include "stepcast/result/site_calibration.h"
#include "stepcast/validate/compare.h"

namespace stepcast::validate {

// The job of a run and its step time, converted from the quantity that the run states (throughput, MFU). A run that gives no
// time of a whole step is refused with the reason. Throws InputError where the run's job is at fault.
std::variant<result::MeasuredStep, Refused> measured_step(forecast::Forecaster& forecaster, const runs::Run& run);

}  // namespace stepcast::validate
