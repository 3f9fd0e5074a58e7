// The first sentence of the report on a validation: what a reader would tell a colleague.
#pragma once

#include <string>

#include "stepcast/result/validation.h"

namespace stepcast::report {

std::string conclusion(const result::Validation& validation);

}  // namespace stepcast::report
