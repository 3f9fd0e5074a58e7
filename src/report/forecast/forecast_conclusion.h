// The first sentence of a forecast.
#pragma once

#include <string>

#include "stepcast/result/report.h"

namespace stepcast::report {

// What a reader would tell a colleague: the step's time and MFU, what it loses most to, and whether
// the job fits in memory. "8.63 s a step at 43.1 % MFU (18 % exposed tensor-parallel
// communication); it fits with 37.6 GiB to spare." Then a warning where no measurement stands
// behind a device or a network.
std::string conclusion(const result::Report& report);

// "70.6 B parameters (12.9 B active), 4.19 M tokens a step, attention cudnn".
std::string job_facts(const result::Report& report);

}  // namespace stepcast::report
