// The first sentence of the report on a plan: what a reader would tell a colleague.
#pragma once

#include <string>

#include "stepcast/result/plan.h"

namespace stepcast::report {

std::string conclusion(const result::Plan& plan);

}  // namespace stepcast::report
