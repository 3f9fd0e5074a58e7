// The first sentence of the report on a sweep: what a reader would tell a colleague.
#pragma once

#include <string>

#include "stepcast/result/sweep.h"

namespace stepcast::report {

std::string conclusion(const result::Sweep& sweep);

}  // namespace stepcast::report
