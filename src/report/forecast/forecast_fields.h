// Fields of a forecast's lists, for JSON, the terminal and the page.
#pragma once

#include "../record/value.h"

namespace stepcast::report {

Record traffic_fields(const result::Traffic& traffic);
Record calibration_use_fields(const result::CalibrationUse& use);
// `step`: step time of the job that the advice is for, in seconds.
Record advice_fields(const result::Advice& advice, double step);

// "folded simulation of 64 ranks in 4 classes: ..."
std::string engine_line(const result::EngineFacts& engine);

}  // namespace stepcast::report
